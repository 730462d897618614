package probe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

func TestListDirs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/it's/rows.jsonl", "a\n")
	write(t, dir+"/it's/deep/part-1.jsonl", "b\n")
	write(t, dir+"/it's/deep/er/not.jsonl", "c\n")
	write(t, dir+"/it's/.hidden/not.jsonl", "d\n")
	write(t, dir+"/it's/notes.md", "e\n")
	write(t, dir+"/logs/server.log", "f\n")
	for i := range dirMost + 50 {
		write(t, fmt.Sprintf("%s/many/%03d.json", dir, i), "{}\n")
	}
	p := New(newLocalNode(t), Options{})
	t.Cleanup(p.closeChannels)
	got := map[string][]string{}
	p.out = func(f metrics.Frame) {
		all, err := metrics.Decode[[]metrics.FileStat](f)
		if f.Kind != metrics.KindDir || err != nil {
			return
		}
		got[f.Name] = nil
		for _, st := range all {
			got[f.Name] = append(got[f.Name], st.Path)
		}
		slices.Sort(got[f.Name])
	}
	w := &places{p: p, large: map[string]bool{}}
	dirs := []string{dir + "/it's", dir + "/logs", dir + "/none", dir + "/many"}
	for round := range 2 {
		clear(got)
		w.listDirs(t.Context(), dirs)
		if !slices.Equal(got[dirs[0]], []string{dirs[0] + "/deep/part-1.jsonl", dirs[0] + "/rows.jsonl"}) ||
			!slices.Equal(got[dirs[1]], []string{dirs[1] + "/server.log"}) || len(got) != 4 || got[dirs[2]] != nil || len(got[dirs[3]]) != dirMost {
			t.Errorf("round %d: %v", round, got)
		}
	}
	if !w.large[dirs[3]] || w.large[dirs[0]] {
		t.Errorf("listed by themselves: %v", w.large)
	}
}

func TestParseDisks(t *testing.T) {
	space := "Filesystem     1024-blocks      Used Available Capacity Mounted on\n/dev/my disk 1 264211108 180000000  83395698      69% /data set\nnfs:/x 100 40 60 40% /nfs\n"
	inodes := "Filesystem       Inodes  IUsed    IFree IUse% Mounted on\n/dev/my disk 1 16777216 469902 16307314    3% /data set\nnfs:/x 0 0 0 - /nfs\n"
	got, ok := parseDisks([][]byte{[]byte(space), []byte(inodes)}, []string{"/data set/a", "/nfs"})
	want := []metrics.DiskFact{
		{Path: "/data set/a", Mount: "/data set", Total: 264211108 << 10, Avail: 83395698 << 10, InodesFree: 16307314},
		{Path: "/nfs", Mount: "/nfs", Total: 100 << 10, Avail: 60 << 10, InodesFree: -1},
	}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got, ok := parseDisks([][]byte{[]byte(space)}, []string{"/data set/a", "/gone", "/nfs"}); ok {
		t.Errorf("two lines for three paths were taken for %+v", got)
	}
}

func TestNewKernelLines(t *testing.T) {
	text := "[   10.5] NVRM: loading\n[ 1200.000001] NVRM: Xid (PCI:0000:ba:00): 79, GPU has fallen off the bus.\n and more\n[ 1300.25] Out of memory: Killed process 42 (python3)\n"
	lines, newest := newKernelLines(text, 0)
	if len(lines) != 4 || newest != 1300.25 {
		t.Errorf("at first %q, %v", lines, newest)
	}
	lines, newest = newKernelLines(text, 10.5)
	if len(lines) != 3 || lines[1] != "and more" {
		t.Errorf("then %q", lines)
	}
	if lines, _ = newKernelLines(text, newest); len(lines) != 0 {
		t.Errorf("again %q", lines)
	}
}

func TestNewPaneLines(t *testing.T) {
	a := []string{"1", "2", "3", "4"}
	for _, tc := range []struct{ before, now, want []string }{
		{nil, a, a},
		{a, a, []string{}},
		{a, []string{"2", "3", "4", "5"}, []string{"5"}},
		{a, []string{"x", "y"}, []string{"x", "y"}},
		{[]string{"1"}, []string{"1", "2"}, []string{"2"}},
	} {
		if got := newPaneLines(tc.before, tc.now); !slices.Equal(got, tc.want) {
			t.Errorf("%v then %v: %v, want %v", tc.before, tc.now, got, tc.want)
		}
	}
}
