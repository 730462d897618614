package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/launch/restart"
)

func newStart(o *options) *cobra.Command {
	var f actFlags
	cmd := &cobra.Command{
		Use:   "start NODE",
		Short: "Start a server where none runs",
		Long: `start brings back what the last restart or stop ended, with the same environment,
limits, directory and log; --start takes the flags of an earlier start, and
--command starts a given command line, and --script what a start script on the node
starts. Edits of flags then change the script too, once the server serves: the
words of its server command and no other byte.

Exit codes: 0 a token came back; 1 refused or declined; 2 the server ended; 3
the node cannot be reached; 4 the port or GPU memory is held; 64 wrong usage.`,
		Example: `  runvigil start gpu7
  runvigil start gpu7 --start 4
  runvigil start gpu7 --script /data/start.sh --set mem-fraction-static=0.88
  runvigil start gpu7 --command 'cd /data && python3 -m sglang.launch_server --model-path /models/k2 --port 8000 >> logs/server.log 2>&1'`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			if given := len(slices.DeleteFunc([]string{f.start, f.command, f.script}, func(s string) bool { return s == "" })); given > 1 {
				return usagef("--start, --command and --script exclude each other")
			}
			return doAct(cmd.Context(), o, args[0], restart.Start, f)
		},
	}
	cmd.Flags().StringVar(&f.start, "start", "", "take the flags of this start: its number or id")
	cmd.Flags().StringVar(&f.command, "command", "", "start this command line")
	cmd.Flags().StringVar(&f.script, "script", "", "start what this start script on the node starts, and edit it in place")
	f.edits(cmd)
	f.common(cmd)
	return cmd
}
