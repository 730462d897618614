package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/adrg/xdg"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/probe"
	"github.com/runvigil/runvigil/tui"
)

// actions is what the screen can ask for by hand. In a replay live is nil.
type actions struct {
	session *session
	live    *live
	prompts *prompts
	state   state
	// recorded is what a replay reads logs from.
	recorded *recordedLogs
}

var (
	errReplay = errors.New("this is a recording: the node itself cannot be asked")
	errNoLink = errors.New("the link to the node is down; try again when it is up")
)

// Put hands an operator's frame to the fold.
func (a *actions) Put(ctx context.Context, f metrics.Frame) error { return a.session.put(ctx, f) }

func (a *actions) probe() (*probe.Probe, error) {
	if a.live == nil {
		return nil, errReplay
	}
	p := a.live.Probe()
	if p == nil {
		return nil, errNoLink
	}
	return p, nil
}

// NewestRow reads the last whole row of a dataset.
func (a *actions) NewestRow(ctx context.Context, path string) (tui.Row, error) {
	p, err := a.probe()
	if err != nil {
		return tui.Row{}, err
	}
	row, err := p.NewestRow(ctx, path)
	return tui.Row{Path: path, JSON: []byte(row.Text), Bytes: row.Bytes, Torn: row.Torn}, err
}

// Shell gives a login shell on the node over the same connection.
func (a *actions) Shell(ctx context.Context) (tea.ExecCommand, error) {
	if a.live == nil {
		return nil, errReplay
	}
	conn := a.live.Conn()
	if conn == nil {
		return nil, errNoLink
	}
	return &remoteShell{ctx: ctx, conn: conn}, nil
}

// Reconnect tries again where the link waits for a person.
func (a *actions) Reconnect(context.Context) error {
	if a.live == nil {
		return errReplay
	}
	a.live.Retry()
	return nil
}

// Answer hands what a person typed to the login that asked.
func (a *actions) Answer(id int, text string, ok bool) {
	if a.prompts != nil {
		a.prompts.answer(id, text, ok)
	}
}

// Save keeps a text in a file of this machine: the last copy, which the next one
// replaces, or a file that must not be there yet. A bare name lies in the folder
// of copies.
func (a *actions) Save(_ context.Context, name, text string) (string, error) {
	file, err := a.saveTo(name)
	if err != nil {
		return "", err
	}
	if name != "" {
		if info, err := os.Lstat(file); err == nil && info.IsDir() {
			return "", fmt.Errorf("%s is a folder; name a file in it", file)
		} else if err == nil {
			return "", fmt.Errorf("%s exists already and was left as it is; name another file", file)
		}
	}
	if err := replaceFile(file, []byte(text)); err != nil {
		return "", fmt.Errorf("%w; %s", err, saveAdvice(err))
	}
	return file, nil
}

// saveTo is the file that a name means; its folder is there.
func (a *actions) saveTo(name string) (string, error) {
	if rest, home := strings.CutPrefix(name, "~/"); home {
		name = filepath.Join(xdg.Home, rest)
	}
	if strings.Contains(name, "/") {
		file, err := filepath.Abs(name)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", name, err)
		}
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return "", fmt.Errorf("the folder of %s cannot be used: %w; make it, or name another", file, bare(err))
		}
		return file, nil
	}
	dir := filepath.Join(xdg.StateHome, "runvigil", "copied")
	if a.state.dir != "" {
		dir = filepath.Join(a.state.dir, "copied")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder %s: %w; %s", dir, bare(err), saveAdvice(err))
	}
	if name == "" {
		name = "copied.txt"
	}
	return filepath.Join(dir, name), nil
}

// saveAdvice is what to try where a text could not be kept.
func saveAdvice(err error) string {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "free space there, or :save it elsewhere, as :save /tmp/x.txt"
	}
	return ":save it elsewhere, as :save /tmp/x.txt"
}
