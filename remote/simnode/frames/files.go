package frames

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// file is one file of the node. Of a log the text is kept; of a dataset only
// its size, the number of its rows and the newest of them.
type file struct {
	path  string
	inode int
	size  int64
	mtime time.Time
	text  []byte
	log   bool
	rows  int64
	head  string
	last  []model.Row // rows of the last tailBytes
}

// tailBytes is how much of a dataset's end the probe judges.
const tailBytes = 64 << 10

func (f *file) id() string { return fmt.Sprintf("66305:%d", f.inode) }

func (s *Source) add(f *file) *file {
	f.inode = 4_194_561 + 13*len(s.paths)
	s.files[f.path] = f
	s.paths = append(s.paths, f.path)
	return f
}

// layOut makes the files that are there before the oldest thing that Past tells.
func (s *Source) layOut() {
	if started := s.node.Server().Started; !started.IsZero() {
		s.add(&file{path: s.past.ServerLog, log: true, mtime: started})
	}
	if started := s.node.Client().Started; !started.IsZero() {
		s.add(&file{path: s.past.ClientLog, log: true, mtime: started})
	}
	for _, p := range s.past.Parts {
		f := &file{path: p.File, mtime: p.Changed}
		for i := range p.Base {
			f.append(p.BaseRow(i))
		}
		if p.Base > 0 {
			s.add(f)
			s.saved = append(s.saved, metrics.SavedFile{Path: f.path, ID: f.id(), Head: f.head, Offset: f.size, Rows: f.rows})
		}
	}
}

func (f *file) append(r model.Row) {
	size := int64(r.Size() + 1)
	if f.rows == 0 {
		f.head = headSum(r.JSON())
	}
	f.rows++
	f.size += size
	f.last = append(f.last, r)
	if len(f.last) > 512 {
		f.last = slices.Clone(f.last[256:])
	}
}

// absorb takes up what the node has written.
func (s *Source) absorb(out model.Output) {
	for _, l := range []struct {
		path   string
		chunks []model.Chunk
	}{{s.past.ServerLog, out.Server}, {s.past.ClientLog, out.Client}} {
		if len(l.chunks) == 0 {
			continue
		}
		f := s.files[l.path]
		if f == nil {
			f = s.add(&file{path: l.path, log: true})
		}
		for _, c := range l.chunks {
			f.text = append(f.text, c.Text...)
			f.mtime = c.At
		}
		f.size = int64(len(f.text))
	}
	for _, r := range out.Rows {
		f := s.files[r.File]
		if f == nil {
			f = s.add(&file{path: r.File})
		}
		f.append(r)
		f.mtime = r.At
	}
	for _, c := range out.Kernel {
		s.kernel = append(s.kernel, strings.TrimSpace(c.Text))
	}
	for _, a := range out.Answers {
		s.answered(a)
	}
}

func (s *Source) stat(p string) metrics.FileStat {
	if f := s.files[p]; f != nil {
		return metrics.FileStat{Path: p, Exists: true, ID: f.id(), Size: f.size, Mtime: f.mtime.Unix()}
	}
	for _, known := range s.paths {
		if strings.HasPrefix(known, strings.TrimSuffix(p, "/")+"/") {
			return metrics.FileStat{Path: p, Exists: true, ID: fmt.Sprintf("66305:%d", 131+len(p)), Size: 4096, Mtime: s.files[known].mtime.Unix(), Dir: true}
		}
	}
	return metrics.FileStat{Path: p}
}

// lookFiles answers the wants for stats, rows and logs.
func (s *Source) lookFiles(wants []metrics.Want) {
	var all []metrics.FileStat
	seen := map[string]bool{}
	for _, w := range wants {
		if (w.Kind == metrics.WantStat || w.Kind == metrics.WantRows || w.Kind == metrics.WantLog) && !seen[w.Path] {
			seen[w.Path] = true
			all = append(all, s.stat(w.Path))
		}
	}
	if len(all) > 0 {
		s.emitJSON(metrics.KindFiles, "", time.Time{}, all)
	}
	for _, w := range wants {
		switch w.Kind {
		case metrics.WantLog:
			s.follow(w)
		case metrics.WantRows:
			s.count(w)
		}
	}
}

// count is what was told of a dataset.
type count struct {
	told     bool
	judgedAt time.Time
	judged   int64 // size at that time
	err      string
}

// count tells how many rows a file has, when it is due.
func (s *Source) count(w metrics.Want) {
	c := s.counts[w.Path]
	if c == nil {
		c = &count{}
		s.counts[w.Path] = c
	}
	if c.told && w.Every == 0 || !s.every("rows "+w.Path, max(w.Every, time.Second)) {
		return
	}
	f := s.files[w.Path]
	if f == nil || f.log {
		if c.err == "" {
			c.err = "no such file"
			s.emitJSON(metrics.KindRows, w.Path, time.Time{}, metrics.RowsFact{Path: w.Path, Err: c.err})
		}
		return
	}
	c.told, c.err = true, ""
	fact := metrics.RowsFact{
		Path: f.path, ID: f.id(), Size: f.size, Mtime: f.mtime.Unix(), Rows: f.rows, Offset: f.size, Head: f.head, Done: true,
	}
	now := s.node.Now()
	if f.size != c.judged && (c.judgedAt.IsZero() || now.Sub(c.judgedAt) >= time.Minute) {
		c.judgedAt, c.judged = now, f.size
		fact.Judged = judge(f)
	}
	s.emitJSON(metrics.KindRows, f.path, time.Time{}, fact)
}

// places answers the wants for directories, file systems and the kernel log.
func (s *Source) places(wants []metrics.Want) {
	var disks []string
	newDisk := false
	for _, w := range wants {
		switch w.Kind {
		case metrics.WantDir:
			if s.every("dir "+w.Path, first(w.Every, dirEvery)) {
				s.list(w.Path)
			}
		case metrics.WantDisk:
			disks = append(disks, w.Path)
			newDisk = s.every("disk of "+w.Path, 100*365*24*time.Hour) || newDisk
		case metrics.WantKernel:
			if s.every("kernel", first(w.Every, kernelEvery)) && len(s.kernel) > 0 {
				s.emit(metrics.KindKernel, "dmesg", time.Time{}, []byte(strings.Join(s.kernel, "\n")+"\n"))
				s.kernel = nil
			}
		}
	}
	if s.every("disks", diskEvery) || newDisk {
		s.disks(disks)
	}
}

func first(d, usual time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return usual
}

// list is a directory's data files and logs and those of its subdirectories,
// newest first.
func (s *Source) list(dir string) {
	out := []metrics.FileStat{}
	for _, p := range s.paths {
		if d := path.Dir(p); d == dir || path.Dir(d) == dir {
			out = append(out, s.stat(p))
		}
	}
	slices.SortStableFunc(out, func(a, b metrics.FileStat) int { return int(b.Mtime - a.Mtime) })
	s.emitJSON(metrics.KindDir, dir, time.Time{}, out)
}

func (s *Source) disks(wanted []string) {
	paths := []string{"/", "/dev/shm"}
	for _, p := range wanted {
		if !slices.Contains(paths, p) && len(paths) < 20 {
			paths = append(paths, p)
		}
	}
	h := s.node.Host()
	out := []metrics.DiskFact{}
	for _, p := range paths {
		d := metrics.DiskFact{Path: p, Mount: "/", Total: -1, Avail: -1, InodesFree: 88_412_310}
		if strings.HasPrefix(p, "/dev/shm") {
			d.Mount, d.Total, d.Avail = "/dev/shm", h.ShmTotal, h.ShmTotal-h.ShmUsed
		} else {
			for _, m := range h.Disks {
				if m.Mount == "/" || p == m.Mount || strings.HasPrefix(p, m.Mount+"/") {
					d.Mount, d.Total, d.Avail = m.Mount, m.Total/1024*1024, m.Free/1024*1024
				}
			}
		}
		out = append(out, d)
	}
	s.emitJSON(metrics.KindDisk, "", time.Time{}, out)
}

// judge reduces a dataset's newest rows to facts.
func judge(f *file) *metrics.RowsJudged {
	j := &metrics.RowsJudged{InTokens: true}
	start := len(f.last)
	for size := 0; start > 0; start-- {
		if size += f.last[start-1].Size() + 1; size > tailBytes {
			break
		}
	}
	for _, r := range f.last[start:] {
		j.Rows++
		j.Finished++
		if r.Finish == "length" {
			j.Truncated++
		}
		j.Lengths = append(j.Lengths, r.Tokens)
		j.Hashes = append(j.Hashes, sum([]byte(r.ID)))
	}
	return j
}

// headSum is the checksum of a file's first bytes, as the probe writes it.
func headSum(text []byte) string {
	head := text[:min(len(text), 256)]
	return fmt.Sprintf("%d:%016x", len(head), sum(head))
}

// lastLine is the end of the last whole line (or piece of a progress bar).
func lastLine(text []byte) int { return bytes.LastIndexAny(text, "\n\r") + 1 }
