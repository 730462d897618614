package explain

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/sglang"
	"github.com/runvigil/runvigil/metrics/vllm"
)

// strips are prefixes that a copy puts before every line: quote marks, an
// indent, what grep and cat -n print, a dashboard's column of times.
var strips = []*regexp.Regexp{
	regexp.MustCompile(`^(?:> ?)+`),
	regexp.MustCompile(`^[ \t]+`),
	regexp.MustCompile(`^[\w./@+-]+\.(?:log|txt|out|err|jsonl?|csv|md)(?:\.\d+)?[:-](?:\d+[:-])?`),
	regexp.MustCompile(`^ {0,6}\d+[:-]`),
	regexp.MustCompile(`^ {0,6}\d+\t`),
	regexp.MustCompile(`^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\t`),
}

// collectors are what docker, kubectl, the journal and Ray put before every
// line. The readers of servers' logs know them and use their times; other
// readers get the lines without.
var collectors = []*regexp.Regexp{
	regexp.MustCompile(`^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) \S{1,80} [\w./-]{1,80}\[\d+\]: ?`),
	regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] ?)?`),
	regexp.MustCompile(`^\[pod/[^\] ]{1,200}\] ?`),
	regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,80} {1,20}\| ?`),
	regexp.MustCompile(`^\([A-Za-z_][\w.:]{0,80} pid=\d+[^)]{0,80}\) ?`),
	regexp.MustCompile(`^\d{1,4}: `),
}

// ansi are the sequences of a terminal.
var ansi = regexp.MustCompile("\x1b(?:\\[[0-9;:?]*[ -/]*[@-~]|\\][^\x07\x1b]{0,512}(?:\x07|\x1b\\\\)|[()][A-Z0-9])")

// unquote takes off colours and what a copy put before every line. The number of
// lines stays.
func unquote(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(data, 0x1b) >= 0 {
		data = ansi.ReplaceAll(data, nil)
	}
	return stripped(data, strips)
}

// stripped takes off prefixes that nearly all lines share, up to three deep.
func stripped(data []byte, prefixes []*regexp.Regexp) []byte {
	for range 3 {
		re := common(data, prefixes)
		if re == nil {
			break
		}
		if re == strips[1] {
			data = dedent(data)
			continue
		}
		out := make([]byte, 0, len(data))
		for line := range bytes.Lines(data) {
			if m := re.FindIndex(line); m != nil && m[1] <= len(bytes.TrimRight(line, "\r\n")) {
				line = line[m[1]:]
			}
			out = append(out, line...)
		}
		data = out
	}
	return data
}

// common finds a prefix that nearly all lines share.
func common(data []byte, prefixes []*regexp.Regexp) *regexp.Regexp {
	counts := make([]int, len(prefixes))
	lines, numbered := 0, 0
	last := -1
	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		lines++
		for i, re := range prefixes {
			if re.Match(line) {
				counts[i]++
			}
		}
		if n := leadingNumber(line); n > last {
			numbered++
			last = n
		}
		if lines >= 2000 {
			break
		}
	}
	if lines == 0 {
		return nil
	}
	for i, re := range prefixes {
		if counts[i]*20 < lines*19 || lines < 2 && re == strips[1] {
			continue
		}
		if (re == strips[3] || re == strips[4]) && (lines < 3 && last >= 1000 || numbered*20 < lines*19) {
			continue // numbers that do not count lines are part of the text
		}
		return re
	}
	return nil
}

// dedent takes off the indent that all lines share: columns keep their places.
func dedent(data []byte) []byte {
	least := -1
	for line := range bytes.Lines(data) {
		if body := bytes.TrimLeft(line, " \t"); len(bytes.TrimSpace(body)) > 0 {
			if n := len(line) - len(body); least < 0 || n < least {
				least = n
			}
		}
	}
	if least <= 0 {
		return data
	}
	out := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) > 0 {
			line = line[least:]
		}
		out = append(out, line...)
	}
	return out
}

func leadingNumber(line []byte) int {
	line = bytes.TrimLeft(line, " ")
	n, i := 0, 0
	for i < len(line) && i < 9 && line[i] >= '0' && line[i] <= '9' {
		n = n*10 + int(line[i]-'0')
		i++
	}
	if i == 0 {
		return -1
	}
	return n
}

// recordStart begins a line of its own, whatever the line before it.
var recordStart = regexp.MustCompile(`^(?:\W{0,4}(?:\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d)|\([\w.]+ pid=|\[?(?:INFO|DEBUG|WARNING|ERROR|CRITICAL|E\d{4}|W\d{4}|I\d{4})\b|` +
	`Traceback|\[rank|\[(?:DP|PP|TP|EP)\d| {2,}File "|During handling|The above exception|\{"|nohup:|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )`)

const (
	foldLeast, foldMost = 40, 400
	// framed is the share of full lines that end in padding or a border, from
	// which the width is a frame's and not a fold's.
	framed = 0.5
)

// unfold joins lines that were broken at the width of a terminal: no line is
// longer than the full ones, and what follows a full line begins no record of
// its own. first holds the number in the file of each line of the result; it is
// nil where nothing was joined. sure says that nearly all full lines go on.
func unfold(data []byte) (out []byte, first []int64, sure bool) {
	width, full, padded := 0, 0, 0
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 4*foldMost {
			return data, nil, false
		}
		switch n := utf8.RuneCount(line); {
		case n > width:
			width, full, padded = n, 0, 0
			fallthrough
		case n == width && n > 0:
			full++
			if bytes.HasSuffix(line, []byte("  ")) || bytes.HasSuffix(line, []byte("│")) || bytes.HasSuffix(line, []byte("|")) {
				padded++
			}
		}
	}
	if width < foldLeast || width > foldMost || full < 2 || float64(padded) > framed*float64(full) {
		return data, nil, false
	}
	out = make([]byte, 0, len(data))
	joined, n := 0, int64(0)
	var open []byte // the line before, if it was full
	for line := range bytes.Lines(data) {
		n++
		body := bytes.TrimRight(line, "\r\n")
		if open != nil && len(body) > 0 && !recordStart.Match(body) && !bytes.HasPrefix(body, open[:4]) {
			out = out[:len(out)-1]
			joined++
		} else {
			first = append(first, n)
		}
		out = append(append(out, body...), '\n')
		if open = nil; utf8.RuneCount(body) == width {
			open = body
		}
	}
	if joined == 0 {
		return data, nil, false
	}
	if !bytes.HasSuffix(data, []byte{'\n'}) {
		out = out[:len(out)-1]
	}
	return out, first, full >= 3 && joined*5 >= full*4
}

// reads measures how much of a log can be read: records, the figures in them,
// faults with a class of their own.
func reads(data []byte) int {
	n := 0
	told := func(more ...bool) {
		n++
		for _, m := range more {
			if m {
				n++
			}
		}
	}
	own := func(c metrics.Cause) bool {
		switch c {
		case metrics.CauseSchedulerException, metrics.CauseStartupFailed, metrics.CauseNativeCrash, metrics.CauseEngineDead, metrics.CauseWorkerDied:
			return false
		}
		return true
	}
	var s sglang.Parser
	line, before := int64(0), 0
	sg := func(e *sglang.Event) {
		switch e.Kind {
		case sglang.KindBatch:
			if e.Line == line {
				n = before // the record in whole replaces its first half
			}
			line, before = e.Line, n
			u, _ := e.Batch.Binding()
			told(e.Batch.Running.Known, e.Batch.Queued.Known, u.Known, e.Batch.GenTPS.Known, e.Batch.InputTPS.Known)
		case sglang.KindStartup:
			u := e.Startup
			told(u.Tokens.Known, u.MaxRunning.Known, u.ContextLen.Known, u.AvailGB.Known, u.Elapsed.Known, u.ChunkedPrefill.Known, u.Total > 0)
		case sglang.KindFault:
			if own(e.Fault.Class) {
				told(true)
			}
		case sglang.KindAccess:
		default:
			told()
		}
	}
	var v vllm.Parser
	vl := func(e *vllm.Event) {
		switch e.Kind {
		case vllm.KindBatch:
			told(e.Batch.Running.Known, e.Batch.Waiting.Known, e.Batch.KVUsage.Known, e.Batch.GenTPS.Known, e.Batch.InputTPS.Known)
		case vllm.KindSpec:
			told(e.Spec.AcceptLen.Known, e.Spec.AcceptRate.Known, e.Spec.Accepted.Known)
		case vllm.KindStartup:
			u := e.Startup
			told(u.Tokens.Known, u.MaxLen.Known, u.Concurrency.Known, u.KVGB.Known, u.WeightGB.Known, u.Elapsed.Known)
		case vllm.KindDump:
			told(e.Dump.Running.Known, e.Dump.KVUsage.Known, e.Dump.Scheduled.Known)
		case vllm.KindFault:
			if own(e.Fault.Class) {
				told(true, e.Fault.FreeGB.Known, e.Fault.Port > 0)
			}
		case vllm.KindAccess:
		default:
			told()
		}
	}
	piece := sample(data)
	s.Feed(piece, sg)
	s.Flush(sg)
	v.Feed(piece, vl)
	v.Flush(vl)
	return n
}

// unpacked takes the lines out of a log collector's JSON records. A record of
// vLLM's own logger gets back what its readers know it by: level, time and place.
func unpacked(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		var rec struct {
			Log, TextPayload, Message *string
			Levelname, Level          string
			Asctime, Timestamp        string
		}
		text := ""
		if json.Unmarshal(line, &rec) == nil {
			for _, s := range []*string{rec.Log, rec.TextPayload, rec.Message} {
				if s != nil {
					text = *s
					break
				}
			}
			if vllmText.MatchString(text) {
				text = headOf(rec.Levelname+rec.Level, rec.Asctime+rec.Timestamp) + text
			}
		}
		out = append(append(out, strings.TrimRight(text, "\r\n")...), '\n')
	}
	return out
}

// vllmText begins a record of vLLM's that came without its head.
var vllmText = regexp.MustCompile(`^(?:Engine \d{3}: |\d+ Engines Aggregated: |Avg prompt t|SpecDecoding metrics|GPU KV cache size|Maximum concurrency|Available KV|Model loading took|` +
	`Loading weights took|Starting to load model|EngineCore |vLLM API server|non-default args|Initializing a V1|Graph capturing|init engine|AsyncLLM |No available shared memory)`)

var stampParts = regexp.MustCompile(`^\d{4}-(\d\d-\d\d)[ T](\d\d:\d\d:\d\d)`)

func headOf(level, stamp string) string {
	m := stampParts.FindStringSubmatch(stamp)
	if m == nil {
		m = []string{"", "01-01", "00:00:00"}
	}
	if level = strings.ToUpper(level); !slices.Contains([]string{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}, level) {
		level = "INFO"
	}
	return level + " " + m[1] + " " + m[2] + " [record.py:1] "
}
