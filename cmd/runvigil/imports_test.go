package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/runvigil/runvigil/"

// rooms is the table of docs/architecture.md: what each folder may import of
// ours. A room ending in "/" also holds for the folders below it that have no
// line of their own; an allowed import ending in "/" allows what is below it.
// stdlibOnly rooms import nothing from outside either.
var rooms = []struct {
	folder     string
	may        []string
	stdlibOnly bool
}{
	{"metrics", nil, true},
	{"metrics/flags", []string{"metrics"}, false},
	{"metrics/findings", []string{"metrics", "metrics/flags"}, false},
	{"metrics/board", []string{"metrics", "metrics/"}, false},
	{"metrics/explain", []string{"metrics", "metrics/"}, false},
	{"metrics/", []string{"metrics"}, false},
	{"remote", nil, false},
	{"remote/posix", nil, true},
	{"remote/remotetest", []string{"remote", "remote/posix"}, false},
	{"remote/probe", []string{"remote", "remote/posix", "metrics", "metrics/jsonl"}, false},
	{"remote/simnode", []string{"metrics", "remote/simnode/"}, false},
	{"remote/simnode/", []string{"metrics", "remote/simnode/"}, false},
	{"launch", []string{"metrics", "metrics/flags", "remote/posix"}, false},
	{"launch/", []string{"metrics", "metrics/flags", "remote/posix", "launch", "launch/"}, false},
	{"tui", []string{"metrics", "metrics/flags", "launch", "launch/"}, false},
	{"testdata", nil, true},
	{"cmd/runvigil", []string{"metrics", "metrics/", "remote", "remote/", "launch", "launch/", "tui", "cmd/runvigil/", "testdata"}, false},
	{"cmd/runvigil/", []string{"metrics", "metrics/", "remote", "remote/", "launch", "launch/"}, false},
}

func room(folder string) int {
	for i, r := range rooms {
		if folder == r.folder || strings.HasSuffix(r.folder, "/") && strings.HasPrefix(folder, r.folder) {
			return i
		}
	}
	return -1
}

func allowed(imp string, may []string) bool {
	for _, m := range may {
		if imp == m || strings.HasSuffix(m, "/") && strings.HasPrefix(imp, m) {
			return true
		}
	}
	return false
}

// TestRooms reads every import of the program's own files. Test files may also
// import remote/simnode and what they test with.
func TestRooms(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && strings.HasPrefix(path.Base(rel), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		files++
		folder := path.Dir(rel)
		i := room(folder)
		if i < 0 {
			t.Errorf("%s: the folder %s is no room of docs/architecture.md", rel, folder)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			own, isOwn := strings.CutPrefix(imp, module)
			switch {
			case isOwn && !allowed(own, rooms[i].may):
				t.Errorf("%s imports %s, which %s may not", rel, own, rooms[i].folder)
			case !isOwn && rooms[i].stdlibOnly && strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
				t.Errorf("%s imports %s; %s imports the standard library only", rel, imp, rooms[i].folder)
			case strings.HasPrefix(folder, "metrics") && (imp == "os" || imp == "net" || imp == "time/tzdata"):
				t.Errorf("%s imports %s; time and files come with frames", rel, imp)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d files were read: the test looks in the wrong place", files)
	}
}
