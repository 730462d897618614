package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
	"github.com/runvigil/runvigil/remote/posix"
)

// guardsName is the guards file beside the data where no other is configured.
const guardsName = "runvigil-guards.toml"

// guardOptions are the flags of `runvigil guard`.
type guardOptions struct {
	allow, deny []string
	why         string
	overridable bool
	onNode      bool
	file        string
	asJSON      bool
	yes         bool
}

func newGuard(o *options) *cobra.Command {
	var g guardOptions
	cmd := &cobra.Command{
		Use:   "guard NODE list|add|remove [FLAG]",
		Short: "The data owner's rules about the server's flags",
		Long: `guard lists, adds and removes the rules of the data's owner about flags. A launch
that breaks one is not restarted. They stand in the configuration, for you, or
with --on-node in a guards-only file beside the data, for every operator.

Patterns are text with * and ?, numbers, or ranges: 0.80..0.90, >=0.9, <8192.`,
		Example: `  runvigil guard gpu7 add kv-cache-dtype --deny 'fp8*' --why "degrades the model noticeably"
  runvigil guard gpu7 add mem-fraction-static --allow 0.80..0.90 --why "0.93 crashed" --overridable
  runvigil guard gpu7 list --on-node
  runvigil guard gpu7 remove kv-cache-dtype`,
		Args: usageArgs(cobra.RangeArgs(2, 3)),
		RunE: func(cmd *cobra.Command, args []string) error {
			flag := ""
			if len(args) == 3 {
				flag = strings.TrimLeft(args[2], "-")
			}
			return guard(cmd.Context(), o, args[0], args[1], flag, g)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&g.allow, "allow", nil, "an allowed pattern or range (may be repeated)")
	f.StringArrayVar(&g.deny, "deny", nil, "a denied pattern or range (may be repeated)")
	f.StringVar(&g.why, "why", "", "the owner's reason, for the operator who meets the rule at night")
	f.BoolVar(&g.overridable, "overridable", false, "a reason lets the rule be overridden")
	f.BoolVar(&g.onNode, "on-node", false, "use the guards file on the node, which holds for every operator")
	f.StringVar(&g.file, "file", "", "the guards file on the node (default: guards_file of the configuration, else beside the data)")
	f.BoolVar(&g.asJSON, "json", false, "list as JSON")
	f.BoolVar(&g.yes, "yes", false, "do not ask before the node's file is written")
	return cmd
}

func guard(ctx context.Context, o *options, name, action, flag string, g guardOptions) error {
	switch {
	case action != "list" && action != "add" && action != "remove":
		return usagef("guard can list, add or remove, not %q", action)
	case action != "list" && flag == "":
		return usagef("name the flag, e.g. `runvigil guard %s %s kv-cache-dtype`", name, action)
	case action != "list" && g.onNode && o.readOnly:
		return usagef("--read-only: the node's guards file is not written")
	case action != "add" && (len(g.allow)+len(g.deny) > 0 || g.why != "" || g.overridable):
		return usagef("--allow, --deny, --why and --overridable belong to `guard NODE add`")
	}
	rule := metrics.Guard{Flag: flag, Allow: g.allow, Deny: g.deny, Why: g.why, Overridable: g.overridable}
	if action == "add" {
		if err := launch.CheckGuard(rule); err != nil {
			return usageError{err}
		}
	}
	edit := func(data []byte, table []string) (out []byte, note string, err error) {
		if action == "add" {
			out, n, err := launch.AddGuard(data, table, rule)
			switch {
			case err == nil && n > 0 && bytes.Equal(out, data):
				note = "this guard is there already; nothing is changed"
			case err == nil && n > 0:
				note = "the same rule was there: it is replaced"
			}
			return out, note, err
		}
		out, n, err := launch.RemoveGuard(data, table, flag)
		if err == nil && n == 0 {
			return nil, "", fmt.Errorf("there is no guard on %s to remove; `runvigil guard %s list` shows all", flag, name)
		}
		return out, "", err
	}
	if g.onNode {
		return guardOnNode(ctx, o, name, action, g, edit)
	}
	if _, demo := demoScenario(name); demo && action == "list" {
		n, err := o.openNode(ctx, name) // it brings rules with it
		if err != nil {
			return err
		}
		defer n.close()
		return printGuards(o, n.config.Guards, g.asJSON)
	}
	if action == "list" {
		return printGuards(o, o.file.ForNode(name).Guards, g.asJSON)
	}
	return editConfig(o, name, edit)
}

// A guardEdit changes a TOML file that has guards in a table; note tells what is
// special about it.
type guardEdit func(data []byte, table []string) (out []byte, note string, err error)

// editConfig changes the guards of a node in the configuration file. Every byte
// outside of the guard stays, and the result must still be a configuration. Who
// comes second waits for the first.
func editConfig(o *options, name string, edit guardEdit) error {
	file := first(o.config, config.DefaultPath())
	unlock, err := lockFile(file)
	if err != nil {
		return fmt.Errorf("lock the configuration: %w", err)
	}
	defer unlock()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the configuration: %w", err)
	}
	out, note, err := edit(data, []string{"node", name, "guards"})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if note != "" {
		fmt.Fprintln(o.io.err, note)
	}
	if bytes.Equal(out, data) {
		return nil
	}
	if _, err := config.Parse(out); err != nil {
		return fmt.Errorf("%s would no longer be a configuration; nothing was written:\n%w", file, err)
	}
	if err := replaceFile(file, out); err != nil {
		return fmt.Errorf("the configuration is as it was: %w", err)
	}
	fmt.Fprint(o.io.out, changedLines(file, data, out))
	return nil
}

// changedLines shows what an edit changed: the lines that went and that came.
func changedLines(file string, before, after []byte) string {
	return metrics.Clean(file, 0) + "\n" + strings.Join(append(launch.ChangedLines(before, after), ""), "\n")
}

func printGuards(o *options, guards []metrics.Guard, asJSON bool) error {
	if asJSON {
		if guards == nil {
			guards = []metrics.Guard{}
		}
		enc := json.NewEncoder(o.io.out)
		enc.SetIndent("", "  ")
		return enc.Encode(guards)
	}
	if len(guards) == 0 {
		fmt.Fprintln(o.io.out, "no guards")
	}
	for _, g := range guards {
		line := g.Flag
		if len(g.Allow) > 0 {
			line += "  allow " + strings.Join(g.Allow, ", ")
		}
		if len(g.Deny) > 0 {
			line += "  deny " + strings.Join(g.Deny, ", ")
		}
		line += "  (" + g.From
		if g.Overridable {
			line += ", overridable"
		}
		fmt.Fprintln(o.io.out, metrics.Clean(line+"): "+g.Why, 600))
	}
	return nil
}

// guardOnNode lists or edits the guards file on the node. What is to be written
// is shown first.
func guardOnNode(ctx context.Context, o *options, name, action string, g guardOptions, edit guardEdit) error {
	n, err := o.openNode(ctx, name)
	if err != nil {
		return err
	}
	defer n.close()
	conn, err := remote.Dial(ctx, n.target, n.dial)
	if err != nil {
		return unreachable(n, err)
	}
	defer func() { _ = conn.Close() }()
	file := first(g.file, guardsPath(n.config))
	if file == "" {
		if file, err = besideTheData(ctx, n, conn); err != nil {
			return err
		}
	}
	if !path.IsAbs(file) {
		return usagef("the guards file %q needs a path from the root", file)
	}
	if action == "list" {
		data, exists, err := readOnNode(ctx, conn, file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		guards, err := launch.ParseGuards(data)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, file, err)
		}
		if !g.asJSON {
			fmt.Fprintf(o.io.err, "%s: %s%s\n", name, file, map[bool]string{false: " does not exist"}[exists])
		}
		return printGuards(o, guards, g.asJSON)
	}
	return writeGuards(ctx, o, n, conn, file, g.yes, edit)
}

// guardTries is how often a guards file that others change at the same moment is
// read again.
const guardTries = 10

// writeGuards edits the guards file on the node. Where somebody else changed it
// since it was read, the edit is made again in what he wrote; what is changed by
// us was confirmed and stays the same, or is asked for again.
func writeGuards(ctx context.Context, o *options, n *node, conn *remote.Conn, file string, yes bool, edit guardEdit) error {
	confirmed := ""
	for try := 1; ; try++ {
		data, exists, err := readOnNode(ctx, conn, file)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		base := data
		if !exists {
			base = launch.EncodeGuards(nil)
		}
		if _, err := launch.ParseGuards(base); err != nil {
			return fmt.Errorf("%s: %s: %w", n.name, file, err)
		}
		out, note, err := edit(base, launch.GuardsTable)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", n.name, file, err)
		}
		if _, err := launch.ParseGuards(out); err != nil {
			return fmt.Errorf("%s: %s would no longer be a guards file; nothing was written: %w", n.name, file, err)
		}
		if note != "" && try == 1 {
			fmt.Fprintln(o.io.err, note)
		}
		if exists && bytes.Equal(out, data) {
			return nil
		}
		if change := changedLines(file, data, out); change != confirmed {
			fmt.Fprint(o.io.out, "On "+n.name+" this file is replaced as a whole, readable by all:\n", change)
			if err := confirmWrite(o, yes); err != nil {
				return err
			}
			confirmed = change
		}
		err = replaceOnNode(ctx, conn, file, data, exists, out, "")
		if errors.Is(err, errChanged) && try < guardTries {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		break
	}
	fmt.Fprintln(o.io.out, "written")
	fmt.Fprintf(o.io.out, "It holds for every operator whose data it lies beside (in the folder of a dataset, or the one above); others need guards_file = %q for this node.\n", file)
	return nil
}

// confirmWrite asks on the terminal; anything but y is a no.
func confirmWrite(o *options, yes bool) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(o.io.in.Fd()) {
		return usagef("nobody can be asked here: --yes writes it")
	}
	fmt.Fprint(o.io.out, "Write it? [y/N] ")
	answer, err := bufio.NewReader(o.io.in).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); err != nil || a != "y" && a != "yes" {
		fmt.Fprintln(o.io.out, "nothing was written")
		return exitError(exitFailed)
	}
	return nil
}

// guardsPath is the guards file of a node: the configured one, else beside the
// data, else "".
func guardsPath(c metrics.Config) string {
	if c.GuardsFile != "" || len(c.Datasets) == 0 {
		return c.GuardsFile
	}
	dir := path.Dir(c.Datasets[0])
	for strings.ContainsAny(dir, "*?[") {
		dir = path.Dir(dir)
	}
	return path.Join(dir, guardsName)
}

// nodeLimit bounds one command on the node.
const nodeLimit = 20 * time.Second

// readOnNode reads a small file; exists is false where there is none.
func readOnNode(ctx context.Context, conn *remote.Conn, file string) (data []byte, exists bool, err error) {
	q, err := posix.Quote(file)
	if err != nil {
		return nil, false, err
	}
	res, err := onNode(ctx, conn, fmt.Sprintf("f=%s\n[ -e \"$f\" ] || exit 44\nexec head -c 300000 \"$f\"\n", q))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", file, err)
	case res.Exit == 44:
		return nil, false, nil
	case res.Exit != 0:
		return nil, true, fmt.Errorf("read %s: %s", file, metrics.Clean(strings.TrimSpace(string(res.Stderr)), 300))
	}
	return res.Stdout, true, nil
}

// errChanged says that a file on the node is not as it was read, or that somebody
// is writing it.
var errChanged = errors.New("somebody else changed it meanwhile; look again")

// replaceOnNode writes a file on the node by a rename, so that a reader sees the
// old or the new one, and only if it is still as it was read (else errChanged). A
// lock beside it, which dies at a minute's age, keeps two of us apart between
// the look and the rename. What was there is kept as backup, unless that is "".
func replaceOnNode(ctx context.Context, conn *remote.Conn, file string, old []byte, existed bool, data []byte, backup string) error {
	words := make([]string, 4)
	for i, s := range []string{file, string(old), string(data), backup} {
		q, err := posix.Quote(s)
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		words[i] = q
	}
	state := "[ ! -e \"$f\" ]"
	if existed {
		state = "[ \"$(cat \"$f\"; echo x)\" = \"$old\"x ]"
	}
	res, err := onNode(ctx, conn, "f="+words[0]+"\nold="+words[1]+"\nnew="+words[2]+"\nb="+words[3]+`
[ ! -h "$f" ] || f=$(readlink -f "$f") || exit 1 # a link stays a link
lock=$f.lock t=$f.new.$$ n=0
umask 022
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
: >"$t" || exit 1 # it says why nothing can be written here
until (set -C; : >"$lock") 2>/dev/null; do
	[ -z "$(find "$lock" -mmin +1 2>/dev/null)" ] || { rm -f "$lock"; continue; }
	[ $((n += 1)) -le 20 ] || exit 45
	sleep 0.1 2>/dev/null || sleep 1
done
trap 'rm -f "$t" "$lock"' EXIT
`+state+` || exit 45
[ ! -e "$f" ] || cp -p "$f" "$t" || exit 1 # its mode and owner
[ -z "$b" ] || cp -p "$f" "$b" || exit 1
printf '%s' "$new" >"$t" && mv -f "$t" "$f"
`)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	switch {
	case res.Exit == 45:
		return fmt.Errorf("write %s: %w", file, errChanged)
	case res.Exit != 0:
		return fmt.Errorf("write %s: %s", file, metrics.Clean(strings.TrimSpace(string(res.Stderr)), 300))
	}
	return nil
}

func onNode(ctx context.Context, conn *remote.Conn, script string) (remote.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeLimit)
	defer cancel()
	return conn.Run(ctx, "exec /bin/sh -s", bytes.NewReader([]byte(script)))
}
