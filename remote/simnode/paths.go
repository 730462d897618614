package simnode

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// modelPort is the port in the model's command lines.
const modelPort = 8000

// places maps between the model's node, whose data lies in /data and whose
// server listens on modelPort, and the living one: data below dir, and a port
// that is free on this machine.
type places struct {
	dir  string
	port int

	outward, inward *strings.Replacer
}

func newPlaces(dir string, port int) places {
	theirs, ours := strconv.Itoa(modelPort), strconv.Itoa(port)
	return places{
		dir:  dir,
		port: port,
		outward: strings.NewReplacer(
			"/data/", dir+"/data/",
			":"+theirs, ":"+ours,
			"port="+theirs, "port="+ours,
		),
		inward: strings.NewReplacer(
			dir+"/data/", "/data/",
			":"+ours, ":"+theirs,
			"port="+ours, "port="+theirs,
		),
	}
}

func (p places) bin() string    { return filepath.Join(p.dir, "bin") }
func (p places) home() string   { return filepath.Join(p.dir, "home") }
func (p places) temp() string   { return filepath.Join(p.dir, "tmp") }
func (p places) kernel() string { return filepath.Join(p.dir, "run", "kmsg") }
func (p places) state() string  { return filepath.Join(p.dir, "state") }
func (p places) socket() string { return socketPath(p.dir) }

func socketPath(dir string) string { return filepath.Join(dir, "run", "node.sock") }

// file is where a path of the model's node lies.
func (p places) file(path string) string {
	if strings.HasPrefix(path, p.dir+"/") {
		return path
	}
	return filepath.Join(p.dir, path)
}

// modelPath undoes file.
func (p places) modelPath(path string) string {
	if rest, below := strings.CutPrefix(path, p.dir+"/"); below {
		return "/" + rest
	}
	return path
}

// text puts the living node's places into a program's text.
func (p places) text(s string) string { return p.outward.Replace(s) }

// argv puts the living node's places into a command line of the model.
func (p places) argv(argv []string) []string {
	return mapArgv(argv, p.outward, modelPort, p.port)
}

// modelArgv undoes argv.
func (p places) modelArgv(argv []string) []string {
	return mapArgv(argv, p.inward, p.port, modelPort)
}

func mapArgv(argv []string, r *strings.Replacer, from, to int) []string {
	mapped := slices.Clone(argv)
	for i, arg := range mapped {
		mapped[i] = r.Replace(arg)
		if i > 0 && mapped[i-1] == "--port" && arg == strconv.Itoa(from) {
			mapped[i] = strconv.Itoa(to)
		}
	}
	return mapped
}

// data is the folder of the run: the one above the logs.
func (p places) data(past model.Past) string {
	return filepath.Dir(filepath.Dir(p.file(past.ServerLog)))
}

// quoted writes a command line for sh.
func quoted(argv []string) string {
	words := slices.Clone(argv)
	for i, word := range words {
		if strings.ContainsAny(word, " \t\n'\"\\$`!*?[]{}()<>|&;#~") || word == "" {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
