package board

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// dataState is what is known of a file as a candidate for a dataset.
type dataState struct {
	growing bool // it was seen to grow
}

// isData tells the names of files that can hold rows.
func isData(p string) bool {
	switch path.Ext(p) {
	case ".jsonl", ".ndjson", ".jsonlines":
		return true
	}
	return false
}

var shardPatterns = []*regexp.Regexp{
	regexp.MustCompile(`\d{2,}-of-\d{2,}`),
	regexp.MustCompile(`(?i)((?:part|shard|rank|worker|chunk|split|proc)[-_.]?)\d+`),
	regexp.MustCompile(`([-_.])\d{2,5}(\.[a-z]+)$`),
}

// shardKey is the pattern that the shards of one dataset have in common; the
// path itself for a file that is no shard.
func shardKey(p string) string {
	dir, name := path.Split(p)
	for i, re := range shardPatterns {
		if !re.MatchString(name) {
			continue
		}
		switch i {
		case 0:
			return dir + re.ReplaceAllString(name, "*-of-*")
		case 1:
			return dir + re.ReplaceAllString(name, "${1}*")
		default:
			return dir + re.ReplaceAllString(name, "${1}*${2}")
		}
	}
	return p
}

// shortName is a dataset's name on the screen: the file without its ending, or
// its folder where the file's name says nothing.
func shortName(p string) string {
	dir, name := path.Split(p)
	name = strings.TrimSuffix(name, path.Ext(name))
	switch strings.ToLower(name) {
	case "raw_responses", "responses", "output", "outputs", "results", "data", "raw", "out", "samples", "generated", "rows":
		if d := path.Base(dir); d != "." && d != "/" {
			return metrics.Clean(d, 80)
		}
	}
	return metrics.Clean(name, 80)
}

// datasetPaths lists the files that are datasets, in order. An input file, which
// nobody wrote since the server or a client began, is none.
func (b *Board) datasetPaths() []string {
	set := map[string]bool{}
	input := map[string]bool{}
	var since time.Time
	early := func(t time.Time) {
		if !t.IsZero() && (since.IsZero() || t.Before(since)) {
			since = t
		}
	}
	for _, s := range b.servers {
		early(s.s.Started)
	}
	for _, l := range b.logs {
		if sec := l.work.section(); sec != nil {
			early(sec.at)
		}
	}
	for _, c := range b.clients {
		early(c.c.Started)
		for _, p := range c.writes {
			set[p] = true
		}
	}
	for p := range b.saved {
		if st, ok := b.files[p]; !ok || st.Exists {
			set[p] = true
		}
	}
	written := func(st metrics.FileStat) bool {
		return st.Exists && !since.IsZero() && st.Mtime > 0 && !b.localUnix(st.Mtime).Before(since)
	}
	// What a client was told to read, and was written before it began, is its
	// input, whatever else has begun since.
	reads := func(p string, st metrics.FileStat) bool {
		return slices.ContainsFunc(b.clients, func(c *clientState) bool {
			return slices.Contains(c.inputs, p) && b.localUnix(st.Mtime).Before(c.c.Started)
		})
	}
	for p, st := range b.files {
		if isData(p) && !st.Dir && written(st) && !reads(p, st) {
			set[p] = true
		}
	}
	for p, d := range b.data {
		if d.growing {
			set[p] = true
		}
	}
	for p, r := range b.rows {
		if r.missing && isData(p) {
			set[p] = true
		}
	}
	for _, c := range b.clients {
		for _, p := range c.argvFiles {
			if !set[p] {
				input[p] = true
			}
		}
	}
	// Parts that are done lie beside the one that grows.
	beside := map[string]bool{}
	for p := range set {
		beside[partFolder(p, set)] = true
	}
	for p, st := range b.files {
		if isData(p) && !st.Dir && st.Exists && !set[p] && !input[p] && beside[partFolder(p, set)] {
			set[p] = true
		}
	}
	for p, st := range b.files {
		for _, g := range b.cfg.Datasets {
			if ok, _ := path.Match(g, p); (ok || g == p) && st.Exists && !st.Dir {
				set[p] = true
			}
		}
	}
	out := make([]string, 0, len(set))
	for p := range set {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// partFolder is where the parts of one job lie: a folder, or where each part has
// its own folder with a file of the same name, the folder above with that name.
func partFolder(p string, set map[string]bool) string {
	dir, name := path.Split(path.Clean(p))
	n := 0
	for o := range set {
		if path.Dir(o) == path.Clean(dir) {
			n++
		}
	}
	if shortName(p) != strings.TrimSuffix(name, path.Ext(name)) && n <= 1 {
		return path.Dir(path.Clean(dir)) + "/*/" + name
	}
	return path.Clean(dir)
}

// datasets builds all datasets, growing ones first.
func (b *Board) datasets() []metrics.Dataset {
	groups := map[string][]string{}
	for _, p := range b.datasetPaths() {
		k := shardKey(p)
		groups[k] = append(groups[k], p)
	}
	out := make([]metrics.Dataset, 0, len(groups))
	for k, files := range groups {
		if len(files) == 1 {
			k = files[0]
		}
		out = append(out, b.dataset(k, files))
	}
	now := b.present()
	slices.SortFunc(out, func(x, y metrics.Dataset) int {
		gx, gy := growing(&x, now), growing(&y, now)
		if gx != gy {
			if gx {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Path, y.Path)
	})
	b.fromFinishes(out)
	for i := range out {
		b.target(&out[i])
	}
	return out
}

// growing tells whether a dataset got rows lately.
func growing(d *metrics.Dataset, now time.Time) bool {
	return !d.Grew.IsZero() && now.Sub(d.Grew) < max(rateSpan, 5*d.Gap) && d.Done.IsZero()
}

func (b *Board) dataset(key string, files []string) metrics.Dataset {
	d := metrics.Dataset{Path: key, Name: shortName(key)}
	var trails []*trail
	var rows, bytes float64
	counted, at := 0, time.Time{}
	client := b.clientStart()
	landed, since, landedKnown := 0.0, client, true
	for _, p := range files {
		st, r := b.files[p], b.rows[p]
		sh := metrics.Shard{Path: p, Mtime: b.localUnix(st.Mtime)}
		size := st.Size
		if r != nil {
			if r.fact.Size > size {
				size = r.fact.Size
			}
			d.Grew = latest(d.Grew, r.grew)
			if r.fact.Err != "" {
				d.Err, d.ErrPath, d.ErrSince = metrics.Clean(r.fact.Err, 200), p, r.errAt
			}
			d.Torn = d.Torn || r.fact.Torn
			if r.seen {
				counted++
				rows += float64(r.fact.Rows)
				at = latest(at, r.at)
				trails = append(trails, &r.trail)
				sh.Rows = metrics.Known(float64(r.fact.Rows), r.at, rowsEvery, "row count")
			} else if !r.fact.Done && r.fact.Size > 0 {
				d.Counting.Done += r.fact.Offset
				d.Counting.Total += r.fact.Size
				d.Counting.Known, d.Counting.Source = true, "row count"
			}
			d.Step += r.step()
			if g := r.gap(); g > 0 && (d.Gap == 0 || g < d.Gap) {
				d.Gap = g
			}
			if n, from, ok := r.landedSince(client, b.localUnix(st.Birth)); ok && !client.IsZero() {
				landed += n
				since = latest(since, from)
			} else {
				landedKnown = false
			}
			b.judged(&d, r)
			if r.reset != nil && (d.Reset == nil || r.reset.At.After(d.Reset.At)) {
				d.Reset = r.reset
			}
			if n := float64(r.past.repeats); n > 0 {
				d.Repeats = metrics.Fixed(d.Repeats.V+n, latest(d.Repeats.At, r.past.at), "newest rows")
			}
		} else {
			landedKnown = false
		}
		d.Grew = latest(d.Grew, sh.Mtime)
		sh.Bytes = metrics.Known(float64(size), latest(at, b.link.LastData), 0, "stat")
		bytes += float64(size)
		d.Shards = append(d.Shards, sh)
		for _, c := range b.clients {
			if slices.Contains(c.writes, p) && c.alive() && !slices.Contains(d.Writers, c.c.PID) {
				d.Writers = append(d.Writers, c.c.PID)
			}
		}
	}
	slices.Sort(d.Writers)
	d.Bytes = metrics.Known(bytes, latest(at, b.link.LastData), 0, "stat")
	if counted == len(files) {
		d.Rows = metrics.Known(rows, at, rowsEvery, "row count")
		if landedKnown {
			d.Landed, d.LandedSince = metrics.Known(landed, at, rowsEvery, "row count"), since
		}
		if rate, over, ok := perMin(trails, at); ok {
			d.PerMin, d.PerMinOver = metrics.Known(rate, at, rowsEvery, "row count"), over
		} else if !d.Grew.IsZero() && at.Sub(d.Grew) > rateSpan {
			d.PerMin, d.PerMinOver = metrics.Known(0, at, rowsEvery, "mtime"), rateSpan
		}
	}
	return d
}

// judged takes what the newest rows of a file look like.
func (b *Board) judged(d *metrics.Dataset, r *rowState) {
	j := r.judged
	if j == nil || d.Judged != nil && d.Judged.Rows >= j.Rows {
		return
	}
	c := *j
	c.Lengths, c.Hashes = slices.Clone(j.Lengths), slices.Clone(j.Hashes)
	d.Judged = &c
	b.past(d, r)
	d.Median, d.Cut = metrics.Figure{}, metrics.Figure{}
	if len(j.Lengths) > 0 {
		v := make([]float64, len(j.Lengths))
		for i, n := range j.Lengths {
			v[i] = float64(n)
		}
		d.Median, d.MedianInTokens = metrics.Known(median(v), r.at, 0, "newest rows"), j.InTokens
	}
	if j.Finished > 0 {
		d.Cut = metrics.Known(float64(j.Truncated)/float64(j.Finished), r.at, 0, "newest rows")
	}
}

// clientStart is when the newest living client began, else the newest one.
func (b *Board) clientStart() time.Time {
	var live, any time.Time
	for _, c := range b.clients {
		if c.alive() {
			live = latest(live, c.c.Started)
		}
		any = latest(any, c.c.Started)
	}
	if !live.IsZero() {
		return live
	}
	return any
}

// fromFinishes fills rows a minute of a first visit: while no growth was
// watched yet, the requests that the log shows as finished tell the rate of the
// one dataset that grows.
func (b *Board) fromFinishes(list []metrics.Dataset) {
	now := b.present()
	var one *metrics.Dataset
	for i := range list {
		if !growing(&list[i], now) {
			continue
		}
		if one != nil {
			return
		}
		one = &list[i]
	}
	if one == nil || one.PerMin.Known && one.PerMinOver >= 2*time.Minute {
		return
	}
	if rate, over, ok := b.finishRate(latest(now.Add(-rateSpan), b.clientStart()), now); ok {
		one.PerMin, one.PerMinOver = metrics.Known(rate, now, 0, sourceFinishes), over
	}
}

const sourceFinishes = "finished requests in the log"

// finishRate is requests a minute that finished since a moment, by the logs of
// the servers that lived then.
func (b *Board) finishRate(from, now time.Time) (rate float64, over time.Duration, ok bool) {
	over = now.Sub(from)
	if over < time.Minute {
		return 0, 0, false
	}
	for _, p := range sortedLogs(b.logs) {
		l := b.logs[p]
		sec := l.work.section()
		if l.work.engine == "" || sec == nil || sec.last.Before(from) {
			continue
		}
		n, known := sec.finishedSince(from)
		if !known {
			return 0, 0, false
		}
		rate += float64(n) / over.Minutes()
		ok = true
	}
	return rate, over, ok && rate > 0
}

// writes tells whether a client grows a dataset. Where nothing names the writer
// (rows are often opened, appended and closed one by one), it is the client that
// was there when the dataset grew, unless that client or that dataset is spoken
// for: growth at the same time alone never joins two jobs.
func (b *Board) writes(c *clientState, d *metrics.Dataset) bool {
	if named(c, d) {
		return true
	}
	if len(c.writes) > 0 || slices.ContainsFunc(b.clients, func(o *clientState) bool { return o != c && o.alive() && named(o, d) }) {
		return false
	}
	return c.alive() && !c.c.Started.IsZero() && !d.Grew.Before(c.c.Started)
}

// wrote tells whether a client that is gone grew a dataset while it was there,
// and nobody after it.
func (b *Board) wrote(c *clientState, d *metrics.Dataset) bool {
	if named(c, d) {
		return true
	}
	return len(c.writes) == 0 && !d.Grew.Before(c.c.Started) && !d.Grew.After(c.endedAt)
}

// named tells whether descriptors or arguments of a client name a dataset.
func named(c *clientState, d *metrics.Dataset) bool {
	for _, s := range d.Shards {
		if slices.Contains(c.writes, s.Path) || slices.Contains(c.argvFiles, s.Path) {
			return true
		}
		for _, a := range c.c.Argv {
			if a = strings.TrimRight(a, "/"); len(a) > 1 && path.IsAbs(a) && strings.HasPrefix(s.Path, a+"/") {
				return true // it was told to write into this folder
			}
		}
	}
	return false
}
