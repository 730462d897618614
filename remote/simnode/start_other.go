//go:build !linux

package simnode

import "context"

// Start returns ErrUnsupported: only Linux can run the node's processes.
func Start(context.Context, Options) (*Node, error) { return nil, ErrUnsupported }

// Main never plays a process here.
func Main([]string) (handled bool, code int) { return false, 0 }
