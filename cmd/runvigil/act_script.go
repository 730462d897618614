package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/launch/restart"
)

// takeText takes the launch from a command line or a start script: what it says,
// and the rest from what was stopped last.
func (a *act) takeText(option string, text []byte) error {
	script, err := launch.ParseScript(text)
	if err != nil {
		return usagef("%s: %w", option, err)
	}
	if dynamic := script.Dynamic(); len(dynamic) > 0 {
		return usagef("%s: only a run of it tells %s; write the values out", option, strings.Join(dynamic, ", "))
	}
	base, given := a.seen.Launch, script.Launch()
	given.BootID, given.Here = base.BootID, base.Here
	if given.Dir == "" {
		given.Dir = base.Dir
	}
	if given.Log == "" && (base.LogHow == launch.LogFile || base.LogHow == launch.LogTee) {
		given.Log, given.LogHow = base.Log, base.LogHow
	}
	a.seen.Launch, a.seen.Saved = given, ""
	return nil
}

// takeScript takes the launch from a start script on the node, and edits the script
// in memory as the launch is edited.
func (a *act) takeScript(ctx context.Context) error {
	file := a.flags.script
	if !path.IsAbs(file) {
		return usagef("--script %q: a path on the node, from the root", file)
	}
	text, err := restart.ReadFile(ctx, a.run, file)
	if err != nil {
		return fmt.Errorf("%s: --script %s: %w", a.n.name, file, err)
	}
	if err := a.takeText("--script", text); err != nil {
		return err
	}
	if a.seen.Launch.Dir == "" {
		a.seen.Launch.Dir = path.Dir(file)
	}
	script, err := launch.ParseScript(text)
	if err != nil {
		return err
	}
	a.scriptOld = text
	if a.scriptNew, err = script.Apply(a.seen.Launch.Version, a.edits()...); err != nil {
		return usagef("--script: %w", err)
	}
	return nil
}

// writeScript replaces a start script on the node, unless it is not as it was read;
// what it was is kept beside it.
func writeScript(ctx context.Context, run *runner, file string, before, after []byte) error {
	conn, err := run.up(ctx)
	if err != nil {
		return err
	}
	return replaceOnNode(ctx, conn, file, before, true, after, file+launch.ScriptBackup)
}
