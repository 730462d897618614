package main

import (
	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/launch/restart"
)

func newStop(o *options) *cobra.Command {
	var f actFlags
	cmd := &cobra.Command{
		Use:   "stop NODE",
		Short: "Stop the server and wait until port and GPU memory are free",
		Long: `stop ends the server and all of its tree, and waits until its port and its GPU
memory are free. What it was started with stays on the node, readable by this
login only, so that ` + "`runvigil start`" + ` can bring it back.

Exit codes: 0 all is free; 1 refused or declined; 3 the node cannot be reached;
4 something could not be ended or is not free; 64 wrong usage.`,
		Example: `  runvigil stop gpu7 --client stop --drain 2m
  runvigil stop demo --yes`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			return doAct(cmd.Context(), o, args[0], restart.Stop, f)
		},
	}
	f.stopping(cmd)
	f.common(cmd)
	return cmd
}
