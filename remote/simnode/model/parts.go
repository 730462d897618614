package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Where the job lies on the node.
const (
	jobFolder  = "/data/eagle3/synth_100k"
	serverLog  = jobFolder + "/logs/sglang_inference.log"
	vllmLog    = jobFolder + "/logs/vllm_inference.log"
	clientLog  = jobFolder + "/logs/inference_all.log"
	rowsFolder = jobFolder + "/raw_responses"
	// outputLimit is the max_new_tokens of every request.
	outputLimit = 32_768
)

// part is one dataset of the job.
type part struct {
	name    string
	target  int
	mean    float64 // mean output length in tokens
	prompt  int     // mean prompt length
	seed    uint64
	rows    int          // now
	past    int          // rows that were there before the node's first event
	landed  map[int]bool // prompts at or after past whose row is there
	changed time.Time
}

func (p *part) file() string { return rowsFolder + "/" + p.name + ".jsonl" }

// output is the length that the answer to prompt i will have.
func (p *part) output(i int) int {
	return min(exponential(p.mean, spread(p.seed, i)), outputLimit)
}

// input is the length of prompt i: the mean, give or take up to two fifths.
func (p *part) input(i int) int {
	s := source(p.seed ^ uint64(i+1)*0xA24BAED4963EE407)
	span := int64(p.prompt) / 5
	return p.prompt + int(s.between(-span, span)+s.between(-span, span))
}

// Parts are the datasets of the job as they are now.
func (n *Node) Parts() []Part {
	var list []Part
	for _, p := range n.parts {
		list = append(list, Part{
			Name: p.name, File: p.file(), Target: p.target, Rows: p.rows, Changed: p.changed, Base: p.past, part: p,
		})
	}
	return list
}

// BaseRow is row i (from 0) of the rows that the part had before Past.Rows begins.
func (p Part) BaseRow(i int) Row {
	row := Row{Part: p.Name, File: p.File, Prompt: i, ID: rowID(p.Name, i), Tokens: p.part.output(i), Input: p.part.input(i), Finish: "stop"}
	if row.Tokens >= outputLimit {
		row.Finish = "length"
	}
	row.Seed = p.part.seed + uint64(i)
	return row
}

func rowID(part string, i int) string { return fmt.Sprintf("%s-%06d", part, i) }

var words = strings.Fields(`the model answer first then because each value list return check state given input
output step case when result function order small large query table index write read keep next limit error
test path name user call class type field count total average sort merge split join parse token batch cache`)

// JSON is the line that the client writes for a row, without its newline: the
// raw response, its text shortened to about half a byte a token.
func (r Row) JSON() []byte {
	s := source(r.Seed)
	text := make([]byte, 0, r.textSize()+16)
	for len(text) < r.textSize() {
		text = append(text, words[s.next()%uint64(len(words))]...)
		text = append(text, "      .,;"[s.next()%9])
	}
	return r.line(string(text[:r.textSize()]))
}

// Size is the length of the line that JSON gives, without making it.
func (r Row) Size() int { return len(r.line("")) + r.textSize() }

func (r Row) textSize() int { return 240 + r.Tokens/2 }

func (r Row) line(text string) []byte {
	luck := source(r.Seed ^ 0x1D)
	meta := rawMeta{
		ID: requestID(&luck), Finish: rawFinish{Type: r.Finish}, Prompt: r.Input, Completion: r.Tokens,
		Weights: "default", Latency: float64(r.Latency.Milliseconds()) / 1000,
	}
	if r.Finish == "length" {
		meta.Finish.Length = r.Tokens
	} else {
		meta.Finish.Matched = stopToken
	}
	line, err := json.Marshal(rawRow{ID: r.ID, Part: r.Part, Prompt: r.Prompt, Text: text, Meta: meta})
	if err != nil {
		panic("model: a row of plain values must be JSON: " + err.Error())
	}
	return line
}

// stopToken is the token that ends an answer.
const stopToken = 163_586

type rawRow struct {
	ID     string  `json:"id"`
	Part   string  `json:"part"`
	Prompt int     `json:"prompt_index"`
	Text   string  `json:"text"`
	Meta   rawMeta `json:"meta_info"`
}

type rawMeta struct {
	ID         string    `json:"id"`
	Finish     rawFinish `json:"finish_reason"`
	Prompt     int       `json:"prompt_tokens"`
	Completion int       `json:"completion_tokens"`
	Cached     int       `json:"cached_tokens"`
	Weights    string    `json:"weight_version"`
	Latency    float64   `json:"e2e_latency"`
}

type rawFinish struct {
	Type    string `json:"type"`
	Matched int    `json:"matched,omitempty"`
	Length  int    `json:"length,omitempty"`
}

func requestID(s *source) string { return fmt.Sprintf("%016x%016x", s.next(), s.next()) }

// filling is the part that is being filled, the last one when none is.
func (n *Node) filling() *part {
	for _, p := range n.parts {
		if p.rows < p.target {
			return p
		}
	}
	return n.parts[len(n.parts)-1]
}

// meanOutput is the mean length of its answers.
func (n *Node) meanOutput() int { return int(n.filling().mean) }

// meanSize is how long a running request is on average once the ramp is over:
// prompt and mean output.
func (n *Node) meanSize() int { return n.filling().prompt + n.meanOutput() }
