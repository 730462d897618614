package main

import (
	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/launch/restart"
)

func newRestart(o *options) *cobra.Command {
	var f actFlags
	cmd := &cobra.Command{
		Use:   "restart NODE",
		Short: "Restart the server with edited flags, after a plan was confirmed",
		Long: `restart stops the server and starts it again with the given edits: same command,
environment, limits, directory and log. It shows the plan first (changes,
forecast, guards, what is lost) and asks for the node's name. The work is done
by a script on the node, which runs to its end also when the link is cut.

--follow follows what is under way: after this program was killed, or what another
login began. Its exit codes are the same.

--yes alone means: the client stays, no drain, SIGTERM, 20 s, SIGKILL.

Exit codes: 0 a token came back; 1 refused or declined, nothing was touched; 2
the new server ended or serves only after the way back; 3 the node cannot be
reached; 4 something could not be ended or freed; 64 wrong usage.`,
		Example: `  runvigil restart gpu7 --set mem-fraction-static=0.88 --dry-run
  runvigil restart gpu7 --set mem-fraction-static=0.88 --unset enable-mixed-chunk
  runvigil restart gpu7 --env SGLANG_LOGGING_LEVEL=debug --client restart --drain 60s
  runvigil restart gpu7 --follow
  runvigil restart demo --set mem-fraction-static=0.86 --yes`,
		Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			return doAct(cmd.Context(), o, args[0], restart.Restart, f)
		},
	}
	cmd.Flags().BoolVar(&f.follow, "follow", false, "follow the restart, stop or start that is under way, whoever began it, and begin nothing")
	f.edits(cmd)
	f.stopping(cmd)
	f.common(cmd)
	cmd.Flags().BoolVar(&f.wayBack, "way-back", false, "if the new server ends before it serves, start the old launch again")
	return cmd
}
