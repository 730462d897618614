package simnode

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// programs are the names under which this binary plays the node's programs.
var programs = []string{"nvidia-smi", "dmesg", "python3", "python"}

// environ is the environment of a login and of the processes that a login
// started long ago. Nothing of the user's own environment enters it but the
// time zone.
func (p places) environ() []string {
	environ := []string{
		"PATH=" + p.bin() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + p.home(),
		"USER=" + nodeUser,
		"LOGNAME=" + nodeUser,
		"SHELL=" + shellPath,
		"LANG=C.UTF-8",
		"TMPDIR=" + p.temp(),
		// Terminals of the user's own tmux are no part of the node.
		"TMUX_TMPDIR=" + p.temp(),
		nodeEnv + "=" + p.dir,
	}
	if zone, set := os.LookupEnv("TZ"); set {
		environ = append(environ, "TZ="+zone)
	}
	return environ
}

// environOf is environ with the settings that a process was started with; where
// things lie stays the node's own.
func (p places) environOf(settings []string) []string {
	environ := p.environ()
	for _, setting := range settings {
		name, _, _ := strings.Cut(setting, "=")
		if name != "PATH" && name != "HOME" {
			environ = append(environ, setting)
		}
	}
	return environ
}

// logOf is where a process that the scenario found running writes.
func (p places) logOf(role model.Role, past model.Past) string {
	switch role {
	case model.ServerMain:
		return p.file(past.ServerLog)
	case model.ClientMain, model.OldClient:
		return p.file(past.ClientLog)
	default:
		return os.DevNull
	}
}

// layOut writes what lies on the node's disk when it is first seen, but for the
// logs, with the modification times of the story.
func layOut(p places, past model.Past, self string) error {
	folders := []string{p.bin(), p.home(), p.temp(), filepath.Dir(p.socket()), p.state(),
		filepath.Dir(p.file(past.ServerLog)), filepath.Dir(p.file(past.ClientLog)), p.file(past.RowsFolder)}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	for _, name := range programs {
		if err := os.Symlink(self, filepath.Join(p.bin(), name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(p.kernel(), []byte(kernelText(past.Kernel)), 0o600); err != nil {
		return err
	}
	for _, part := range past.Parts {
		if err := writeRows(p.file(part.File), part, past.Rows); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(p.home(), ".profile"), []byte("PS1='"+nodeUser+"@demo:$PWD# '\n"), 0o600)
}

// writeLogs writes the logs of the past. pids are the model's and the real ones
// of the processes found running: a server's log names its own.
func writeLogs(p places, past model.Past, pids map[int]int, clientStarted time.Time) error {
	var names []string
	for theirs, ours := range pids {
		names = append(names, fmt.Sprintf("[%d]", theirs), fmt.Sprintf("[%d]", ours))
	}
	inBrackets := strings.NewReplacer(names...)
	if err := writeChunks(p.file(past.ServerLog), past.Server, inBrackets, p, time.Time{}); err != nil {
		return err
	}
	return writeChunks(p.file(past.ClientLog), past.Client, inBrackets, p, clientStarted)
}

// writeChunks writes a log, last changed by its last chunk, or when it was made.
func writeChunks(path string, chunks []model.Chunk, pids *strings.Replacer, p places, made time.Time) error {
	var text strings.Builder
	for _, c := range chunks {
		text.WriteString(c.Text)
		made = c.At
	}
	if err := os.WriteFile(path, []byte(pids.Replace(p.text(text.String()))), 0o644); err != nil {
		return err
	}
	if made.IsZero() {
		return nil
	}
	return os.Chtimes(path, made, made)
}

// kernelText is what dmesg prints: the lines with their stamps counted from the
// boot of this machine, whose uptime the node shows, not of the model's.
func kernelText(chunks []model.Chunk) string {
	if len(chunks) == 0 {
		return ""
	}
	var uptime float64
	if text, err := os.ReadFile("/proc/uptime"); err == nil {
		_, _ = fmt.Sscan(string(text), &uptime)
	}
	var out strings.Builder
	for _, c := range chunks {
		_, line, _ := strings.Cut(c.Text, "] ")
		fmt.Fprintf(&out, "[%12.6f] %s", max(0, uptime-time.Since(c.At).Seconds()), line)
	}
	return out.String()
}

// writeModel leaves the folder that the server's command line names.
func writeModel(p places, server []string) error {
	folder := valueOf(server, "--model-path")
	if folder == "" {
		folder = valueOf(server, "--model") // vLLM's word for it
	}
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(p.file(folder), 0o700); err != nil {
		return err
	}
	config := `{"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "num_hidden_layers": 61}` + "\n"
	return os.WriteFile(filepath.Join(p.file(folder), "config.json"), []byte(config), 0o600)
}

// writeRows writes the part's rows of the past; a part without rows has no file.
func writeRows(path string, part model.Part, recent []model.Row) error {
	if part.Rows == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	changed := part.Changed
	write := func(r model.Row) {
		_, _ = w.Write(r.JSON()) // Flush reports a failure
		_ = w.WriteByte('\n')
	}
	for i := range part.Base {
		write(part.BaseRow(i))
	}
	for _, r := range recent {
		if r.Part == part.Name {
			write(r)
			changed = r.At
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Chtimes(path, time.Now(), changed)
}

// writeStarters leaves the start scripts that an operator would have used, and
// the client program that they name.
func writeStarters(p places, server, client []string, past model.Past) error {
	data := p.data(past)
	files := map[string]string{
		"run_inference.py": "# Played by the simulated node: see start_client.sh for how it is started.\n",
	}
	for name, start := range map[string]struct {
		argv []string
		log  string
	}{
		"start_server.sh": {server, past.ServerLog},
		"start_client.sh": {client, past.ClientLog},
	} {
		if len(start.argv) > 0 {
			files[name] = fmt.Sprintf("#!/bin/sh\ncd %s || exit 1\nnohup %s >> %s 2>&1 < /dev/null &\n",
				data, quoted(p.argv(start.argv)), p.file(start.log))
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}
