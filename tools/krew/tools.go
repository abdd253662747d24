//go:build tools

// Package tools names the programs that are built from this module, so that
// go mod tidy keeps what they need.
package tools

import (
	_ "sigs.k8s.io/krew/cmd/krew"
	_ "sigs.k8s.io/krew/cmd/validate-krew-manifest"
)
