//go:build tools

// Package tools names the program that is built from this module, so that
// go mod tidy keeps what it needs.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver/app"
