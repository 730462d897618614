package launch

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const nonce = "n0nce42"

// answer builds what IdentifyScript would print, from pairs of section and text.
func answer(pairs ...string) []byte {
	var b strings.Builder
	b.WriteString("motd of a noisy login\n\n" + nonce + " begin\n")
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString("\n" + nonce + " " + pairs[i] + "\n" + pairs[i+1])
	}
	b.WriteString("\n" + nonce + " end\n")
	return []byte(b.String())
}

const limitsText = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max open files            1048576              1048576              files     
Max locked memory         unlimited            unlimited            bytes     
Max nice priority         0                    0                    
`

// story is a server as the story's operator started it: by root, with nohup,
// its output in a file.
func story() []string {
	return []string{
		"boot", "0b5a6a3e-0001\n",
		"stat", "206001 (python3 (x) y) S 1 206001 205990 0 -1 4194560 1 2 3 4 5 6 7 8 20 5 90 0 4410021 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 0 0 0 0 0\n",
		"cmdline", "python3\x00-m\x00sglang.launch_server\x00--model-path\x00/data/models/Kimi-K2.5\x00--tp\x008\x00--mem-fraction-static\x000.88\x00--api-key\x00sk-verysecretvalue123\x00--note\x00a b\x00",
		"environ", "PATH=/usr/bin\x00HF_TOKEN=hf_abcdefghijklmnopqrst\x00EMPTY=\x00MULTI=a\nb\x00SSH_CONNECTION=1 2 3\x00",
		"limits", limitsText,
		"status", "Name:\tpython3\nUmask:\t0027\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0 44 \nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\nCpus_allowed_list:\t0-31\nMems_allowed_list:\t0\n",
		"cgroup", "0::/user.slice/user-0.slice/session-3.scope\n",
		"oom", "-500\n", "cwd", "/data/eagle3\n", "exe", "/usr/bin/python3.12\n",
		"fd", "0 /dev/null\n1 /data/logs/sglang inference.log\n2 /data/logs/sglang inference.log\n3 /data/lock\n4 anon_inode:[eventpoll]\n5 socket:[991]\n6 /everybody\n",
		"fd0", "/dev/null\n", "fd1", "/data/logs/sglang inference.log\n", "fd2", "/data/logs/sglang inference.log\n",
		"ns", "mnt mnt:[1]\npid pid:[2]\n", "myns", "mnt mnt:[1]\npid pid:[2]\n",
		"mystatus", "Uid:\t0\t0\t0\t0\nGroups:\t0 44\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-63\n",
		"mylimits", limitsText, "mycgroup", "0::/user.slice/user-0.slice/session-9.scope\n", "me", "0\nroot\n", "user", "root\n",
		"cpus", "0-63\n", "tools", "setsid\ntaskset\nrenice\n",
		"parentfd", "3 /data/lock\n5 socket:[990]\n6 /everybody\n", "myfd", "3 /other\n6 /everybody\n",
	}
}

// with replaces sections of a list of pairs.
func with(pairs []string, changes ...string) []string {
	pairs = slices.Clone(pairs)
	for i := 0; i < len(changes); i += 2 {
		if j := slices.Index(pairs, changes[i]); j >= 0 {
			pairs[j+1] = changes[i+1]
		} else {
			pairs = append(pairs, changes[i], changes[i+1])
		}
	}
	return pairs
}

func TestParseIdentifyReadsTheWholeLaunch(t *testing.T) {
	got, err := ParseIdentify(answer(story()...), nonce, 206001)
	if err != nil {
		t.Fatal(err)
	}
	want := Launch{
		BootID: "0b5a6a3e-0001", PID: 206001, Start: 4410021, PPID: 1, PGID: 206001, SID: 205990, Engine: "sglang",
		Argv: []string{
			"python3", "-m", "sglang.launch_server", "--model-path", "/data/models/Kimi-K2.5", "--tp", "8",
			"--mem-fraction-static", "0.88", "--api-key", "***", "--note", "a b",
		},
		Exe: "/usr/bin/python3.12",
		Env: []Var{
			{Name: "PATH", Value: "/usr/bin"},
			{Name: "HF_TOKEN", Value: "***", Secret: true},
			{Name: "EMPTY"},
			{Name: "MULTI", Value: "a\nb"},
			{Name: "SSH_CONNECTION", Value: "1 2 3"},
		},
		Dir: "/data/eagle3", Log: "/data/logs/sglang inference.log", LogHow: LogFile,
		Limits: []Limit{
			{"Max cpu time", "unlimited", "unlimited", "seconds"},
			{"Max open files", "1048576", "1048576", "files"},
			{"Max locked memory", "unlimited", "unlimited", "bytes"},
			{"Max nice priority", "0", "0", ""},
		},
		Affinity: "0-31", Mems: "0", CPUs: 64, Umask: 0o27, Nice: 5, OOMScore: -500, UID: 0, GID: 0, User: "root", Groups: []int{0, 44},
		Cgroup: "/user.slice/user-0.slice/session-3.scope", Caps: 0x1ffffffffff,
		FDs: []FD{{3, "/data/lock"}},
		Here: Here{
			Known: true, User: "root", Groups: []int{0, 44}, Caps: 0x1ffffffffff, Cgroup: "/user.slice/user-0.slice/session-9.scope",
			Limits: got.Limits, Affinity: "0-63", Tools: []string{"setsid", "taskset", "renice"},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := got.NotReproduced(); len(got) != 1 || !strings.Contains(got[0], "descriptor 3 (/data/lock)") {
		t.Errorf("not reproduced: %q", got)
	}
}

func TestNotReproduced(t *testing.T) {
	for name, c := range map[string]struct {
		changes []string
		want    string
	}{
		"title wiped the environment": {[]string{"environ", strings.Repeat("\x00", 1354)}, "environment: the process overwrote it"},
		"title wiped the command":     {[]string{"cmdline", "sglang::scheduler_TP0\x00\x00\x00\x00"}, "its command: the process overwrote it"},
		"deleted directory":           {[]string{"cwd", "/data/old (deleted)\n"}, "directory: /data/old no longer exists"},
		"terminal":                    {[]string{"fd1", "/dev/pts/3\n", "fd2", "/dev/pts/3\n"}, "output: it went to the terminal /dev/pts/3"},
		"pipe":                        {[]string{"fd1", "pipe:[77]\n", "reader", "svlogd\x00-tt\x00/var/log\x00"}, "through a pipe into `svlogd -tt /var/log`"},
		"tee": {[]string{"fd1", "pipe:[77]\n", "fd2", "pipe:[77]\n", "reader", "tee\x00-a\x00x.log\x00", "readercwd", "/data\n", "readerfd", "3 /data/x.log\n9 /a/lock\n"},
			"appends to /data/x.log itself"},
		"deleted log":     {[]string{"fd1", "/data/x.log (deleted)\n", "fd2", "/data/x.log (deleted)\n"}, "the file was deleted"},
		"separate stderr": {[]string{"fd2", "/data/err.log\n"}, "standard error: it went to /data/err.log"},
		"stdin":           {[]string{"fd0", "/dev/pts/1\n"}, "standard input: it was /dev/pts/1"},
		"unit":            {[]string{"cgroup", "0::/system.slice/sglang.service\n"}, "unit: sglang.service supervises it"},
		"container":       {[]string{"cgroup", "0::/system.slice/docker-ab12.scope\n"}, "container: it runs inside docker-ab12"},
		"slurm":           {[]string{"cgroup", "0::/system.slice/slurmstepd.scope/job_4711/step_0\n"}, "Slurm job 4711"},
		"memory limit":    {[]string{"memory.max", "966367641600\n"}, "memory limit of its control group"},
		"other user": {[]string{"mystatus", "Uid:\t1000\t1000\t1000\t1000\nGroups:\t1000\nCapEff:\t0\n", "me", "1000\nops\n"},
			"your login is ops (uid 1000)"},
		"limit above ours": {[]string{
			"mystatus", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0\n",
			"mylimits", strings.ReplaceAll(limitsText, "1048576", "4096   "),
		}, `limit "Max open files": it has 1048576, your login may have 4096 at most`},
		"capabilities":    {[]string{"mystatus", "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n"}, "capabilities: it has 000001ffffffffff"},
		"namespaces":      {[]string{"myns", "mnt mnt:[1]\npid pid:[99]\n"}, "namespaces (pid)"},
		"named fd":        {[]string{"cmdline", "python3\x00-m\x00sglang.launch_server\x00--config\x00/dev/fd/5\x00"}, "descriptor 5 (socket:[991])"},
		"activation":      {[]string{"environ", "LISTEN_FDS=3\x00"}, "descriptor 5 (socket:[991])"},
		"flags in a file": {[]string{"cmdline", "python3\x00-m\x00sglang.launch_server\x00--config\x00/c.yaml\x00"}, "flags in /c.yaml"},
		"no taskset":      {[]string{"tools", "setsid\n"}, "CPU affinity 0-31: the node has no taskset"},
	} {
		l, err := ParseIdentify(answer(with(story(), c.changes...)...), nonce, 206001)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := l.NotReproduced(); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: %q lacks %q", name, got, c.want)
		}
	}
}

func TestFlagsFileIsPartOfTheLaunch(t *testing.T) {
	pairs := with(story(), "config", "kv-cache-dtype: fp8_e4m3\napi-key: sk-planted0123456789abc\n")
	l, err := ParseIdentify(answer(pairs...), nonce, 206001)
	if err != nil || l.Effective()["kv-cache-dtype"] != "fp8_e4m3" || l.FileFlags["api-key"] != "***" {
		t.Errorf("%v: %v", err, l.FileFlags)
	}
	l, err = ParseIdentify(answer(with(pairs, "config", "a: {b: c}")...), nonce, 206001)
	if err != nil || !slices.ContainsFunc(l.NotReproduced(), func(s string) bool { return strings.Contains(s, "--config names: line 1") }) {
		t.Errorf("%v: %v", err, l.NotReproduced())
	}
}

func TestParseIdentifyErrors(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":     {nil, "no beginning"},
		"cut":         {[]byte("\n" + nonce + " begin\n\n" + nonce + " stat\n1 (x) S"), "cut short"},
		"gone":        {answer("boot", "x", "gone", ""), ErrGone.Error()},
		"other pid":   {answer(with(story(), "stat", strings.Replace(story()[3], "206001", "7", 1))...), "about pid 7"},
		"short stat":  {answer("stat", "206001 (x) S 1 2"), "3 fields"},
		"no stat":     {answer(), "stat line"},
		"wrong nonce": {[]byte(strings.ReplaceAll(string(answer(story()...)), nonce, "other")), "no beginning"},
	} {
		_, err := ParseIdentify(c.raw, nonce, 206001)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
	if _, err := ParseIdentify(answer("boot", "x", "gone", ""), nonce, 1); !errors.Is(err, ErrGone) {
		t.Errorf("a process that is gone: %v", err)
	}
}

func FuzzParseIdentify(f *testing.F) {
	f.Add(answer(story()...))
	f.Add(answer("boot", "x", "gone", ""))
	f.Add([]byte("\n" + nonce + " limits\nSoft Limit"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := ParseIdentify(raw, nonce, 206001)
		if err == nil && l.PID != 206001 {
			t.Errorf("pid %s was taken for 206001", strconv.Itoa(l.PID))
		}
		for _, s := range l.NotReproduced() {
			if strings.ContainsAny(s, "\x1b\n") {
				t.Errorf("%q would reach the screen", s)
			}
		}
	})
}
