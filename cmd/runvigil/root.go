package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
)

// Set by the release build.
var (
	version = ""
	commit  = ""
)

// options are the flags that every command shares.
type options struct {
	io       stdio
	config   string
	dial     string
	identity string
	interval time.Duration
	readOnly bool
	ascii    bool
	theme    string
	logFile  string

	file config.Config
}

func newRoot(io stdio) *cobra.Command {
	o := &options{io: io}
	root := &cobra.Command{
		Use:   "runvigil [NODE]",
		Short: "Watch a long LLM generation run on a GPU node over SSH",
		Long: `runvigil watches one long LLM generation run on a GPU node over SSH. Nothing is
installed on the node. It shows GPU memory, tok/s, running and queued requests
and the rows that really reach the disk, says what is wrong, why, and what to do.

NODE is [user@]host[:port], an alias of your ssh config, a node of the
configuration file, "local" for this machine, or "demo" (demo:SCENARIO) for the
simulated node.`,
		Example: `  runvigil demo                       see it work, without any node
  runvigil root@gpu7                  the live screen
  runvigil check root@gpu7            one glance, for a person
  runvigil check gpu7 --line          one line, for tmux's status-right
  runvigil record gpu7 -o night.rv    keep everything that was learnt
  runvigil replay night.rv --at 03:12 look at it as it was
  runvigil explain server.log         what a captured file says`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name a node, e.g. `runvigil root@gpu7`, or try `runvigil demo`")
			}
			return watch(cmd.Context(), o, args[0])
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return o.prepare() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := root.PersistentFlags()
	f.StringVar(&o.config, "config", "", "configuration file (default "+config.DefaultPath()+")")
	f.StringVar(&o.dial, "dial", "", "how to connect: openssh, native or local (default openssh where ssh is installed)")
	f.StringVar(&o.identity, "identity", "", "private key file to offer first")
	f.DurationVar(&o.interval, "interval", time.Second, "time between two samples")
	f.BoolVar(&o.readOnly, "read-only", false, "leave out everything that acts on the node")
	f.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	f.StringVar(&o.theme, "theme", "", "auto, light or dark (default auto: the terminal is asked)")
	f.StringVar(&o.logFile, "log-file", "", "write runvigil's own log to this file")
	root.AddCommand(newRestart(o), newStop(o), newStart(o))
	root.AddCommand(newStarts(o), newGuard(o))
	root.AddCommand(newWatch(o), newDemo(o), newCheck(o), newRecord(o), newReplay(o), newWait(o), newReport(o), newExplain(o), newVersion(o))
	return root
}

// prepare reads the configuration and opens the log, for every command.
func (o *options) prepare() error {
	file, err := config.Load(o.config)
	if err != nil {
		return usageError{err}
	}
	o.file = file
	switch o.dial {
	case "":
		o.dial = file.Dial
	case "openssh", "native", "local":
	default:
		return usagef("--dial is %q; it may be openssh, native or local", o.dial)
	}
	if o.identity == "" {
		o.identity = file.Identity
	}
	if o.theme == "" {
		o.theme = file.Theme
	}
	switch o.theme {
	case "", "auto", "light", "dark":
	default:
		return usagef("--theme is %q; it may be auto, light or dark", o.theme)
	}
	o.ascii = o.ascii || file.ASCII
	if o.interval < 200*time.Millisecond {
		return usagef("--interval is %s; the shortest is 200ms", o.interval)
	}
	return o.openLog()
}

// openLog sends runvigil's own log to a file; without one it is dropped, since
// standard error belongs to the screen.
func (o *options) openLog() error {
	if o.logFile == "" {
		slog.SetDefault(slog.New(slog.DiscardHandler))
		return nil
	}
	f, err := os.OpenFile(o.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return usagef("open the log file: %w", err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return nil
}

// usageArgs makes wrong arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// oneNode asks for exactly one NODE argument.
func oneNode(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{errors.New(cmd.CommandPath() + " takes one NODE, e.g. `" + cmd.CommandPath() + " root@gpu7`")}
	}
	return nil
}

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(o.io.out, versionText())
			return err
		},
	}
}

func versionText() string {
	v, c := version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if c == "" && s.Key == "vcs.revision" {
				c = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	if v == "" {
		v = "devel"
	}
	if c != "" {
		v += " (" + c + ")"
	}
	return "runvigil " + v
}
