package launch

import (
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

func TestScriptTakesADraft(t *testing.T) {
	const src = "#!/bin/bash\nMEM=0.88 # not used\nexec python3 -m sglang.launch_server --model-path /m \\\n  --tp 8 --mem-fraction-static 0.88 \\\n  --enable-mixed-chunk >> s.log 2>&1\n"
	s, err := ParseScript([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	d := NewDraft(s.Launch())
	for _, e := range []Edit{{Kind: SetFlag, Name: "mem-fraction-static", Value: "0.9"}, {Kind: UnsetFlag, Name: "enable-mixed-chunk"}, {Kind: SetFlag, Name: "disable-radix-cache", Value: "true"}} {
		if err := d.Do(e); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.Take("0.5.9", d.Diff())
	want := "#!/bin/bash\nMEM=0.88 # not used\nexec python3 -m sglang.launch_server --model-path /m \\\n  --tp 8 --mem-fraction-static 0.9 \\\n  --disable-radix-cache >> s.log 2>&1\n"
	if err != nil || string(out) != want {
		t.Errorf("%v:\n%s", err, out)
	}
	masked := metrics.Masked
	for _, c := range []Change{{Flag: "A", Env: true, To: &masked}, {Flag: "api-key", To: &masked}} {
		if _, err := s.Take("0.5.9", []Change{c}); err == nil || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if got := ChangedLines([]byte("a\nb\nc\n"), []byte("a\nB\x1b\nc\n")); len(got) != 2 || got[0] != "- b" || strings.Contains(got[1], "\x1b") {
		t.Errorf("%q", got)
	}
	if got := ChangedLines([]byte("a"), []byte("a")); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func TestScriptOfTheParent(t *testing.T) {
	for parent, want := range map[string]string{
		"bash /data/start.sh 0.88": "/data/start.sh", "/bin/sh -e ./start.sh": "/srv/start.sh", "bash -c python3 x": "", "bash": "", "python3 run.py": "",
		"/bin/sh /root/.cache/runvigil/restart/1/restart.sh wrap new": "", "": "",
	} {
		if got := (Launch{Parent: parent, Dir: "/srv"}).ScriptOf(); got != want {
			t.Errorf("%q: %q, want %q", parent, got, want)
		}
	}
	if got := (Launch{Script: "/x.sh", Parent: "bash /y.sh"}).ScriptOf(); got != "/x.sh" {
		t.Error(got)
	}
	if got := (Launch{Parent: "bash start.sh"}).ScriptOf(); got != "" {
		t.Errorf("from an unknown folder: %q", got)
	}
}
