//go:build tools

// Package tools names the program that is built from this module, so that
// go mod tidy keeps what it needs.
package tools

import _ "github.com/operator-framework/operator-registry/cmd/opm"
