// Package jsonl judges rows of generated data by facts that hold no content:
// whether a row is valid, how long its output is, why it ended, and a salted
// hash of its id. It knows the shapes that generation clients write: SGLang's
// native answer, OpenAI's chat and text completions (also as a batch result),
// chat transcripts, and flat records, each alone or nested in a wrapper.
package jsonl

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// row gathers the facts of one line.
type row struct {
	rank   int // of the best output seen: smaller is surer, 0 none
	runes  int
	inky   bool // the output holds more than white space
	tokens int  // -1 unknown
	ids    int  // length of a list of output token ids, -1 none
	finish finish
	failed bool
	idRank int
	id     []byte // raw JSON of the id
	sample []byte
}

type finish uint8

const (
	finishUnknown finish = iota
	finishStop
	finishLength
	finishError
)

// Where in a row the walker is; keys mean different things in each place.
type place uint8

const (
	atTop     place = iota
	atBody          // a wrapper: response, result, body, output
	atChoice        // an element of choices
	atMessage       // a message whose author is the model
	atMeta          // meta_info
	atUsage         // usage
)

// judge walks one line. ok is false where it is not one JSON object or array.
func judge(line []byte) (r row, ok bool) {
	r = row{tokens: -1, ids: -1}
	s := &scanner{b: line}
	switch s.peek() {
	case '{':
		ok = r.object(s, atTop)
	case '[':
		ok = s.array(func(int) bool {
			if s.peek() == '{' {
				return r.object(s, atBody)
			}
			return s.skip()
		})
	}
	s.space()
	return r, ok && s.i == len(s.b)
}

func (r *row) object(s *scanner, at place) bool {
	return s.object(func(key []byte) bool { return r.field(s, at, string(key)) })
}

// outputs ranks keys that hold the model's text. A plain "text" or "content" is
// often the prompt, so it counts only where nothing surer stands in the row.
var outputs = map[string]int{
	"response": 2, "output": 2, "completion": 2, "generated_text": 2, "generation": 2, "answer": 3, "prediction": 2,
	"model_output": 2, "model_response": 2, "output_text": 2, "raw_response": 2, "generated": 2, "assistant": 2,
	"responses": 2, "outputs": 2, "completions": 2, "generations": 2, "predictions": 2, "result": 3, "reply": 2,
	"text": 4, "content": 4,
}

// ids ranks keys that name a row; sampleKeys tell samples of one id apart. A
// batch service puts an id of its own beside the client's custom_id.
var ids = map[string]int{
	"custom_id": 1, "id": 2, "sample_id": 3, "row_id": 3, "prompt_id": 3, "uid": 3, "uuid": 3, "task_id": 3,
	"prompt_idx": 3, "prompt_index": 3, "question_id": 3, "example_id": 3, "request_id": 4, "doc_id": 4, "idx": numbering, "index": numbering, "key": numbering,
	"hash": 6, "prompt_hash": 6,
}

const numbering = 5

var sampleKeys = map[string]bool{
	"sample": true, "sample_idx": true, "sample_index": true, "sample_no": true, "sample_num": true, "repeat": true,
	"repeat_id": true, "rollout": true, "rollout_idx": true, "attempt_idx": true, "choice_index": true, "generation_idx": true,
	"completion_idx": true, "turn": true, "part": true, "dataset": true, "source": true, "split": true,
}

var tokenKeys = map[string]bool{
	"completion_tokens": true, "output_tokens": true, "generated_tokens": true, "num_output_tokens": true, "num_generated_tokens": true,
	"num_completion_tokens": true, "n_output_tokens": true, "output_len": true, "response_tokens": true, "tokens_generated": true,
}

func (r *row) field(s *scanner, at place, key string) bool {
	c := s.peek()
	switch {
	case key == "finish_reason" || key == "finish_reasons" || key == "stop_reason" && at != atMeta || key == "finished_reason":
		return r.reason(s)
	case key == "usage" || key == "token_usage":
		if c == '{' {
			return r.object(s, atUsage)
		}
	case key == "meta_info" || key == "meta" || key == "metadata" && c == '{':
		if c == '{' {
			return r.object(s, atMeta)
		}
	case tokenKeys[key]:
		return r.count(s)
	case (key == "output_ids" || key == "output_token_ids" || key == "completion_ids") && c == '[':
		n := 0
		ok := s.array(func(int) bool { n++; return s.skip() })
		r.ids = n
		return ok
	case at == atUsage || at == atMeta:
		return s.skip()
	case key == "choices" && c == '[':
		return s.array(func(int) bool {
			if s.peek() == '{' {
				return r.object(s, atChoice)
			}
			return r.text(s, 2)
		})
	case (key == "message" || key == "delta") && c == '{':
		return r.object(s, atMessage)
	case key == "messages" || key == "conversations" || key == "conversation":
		if c == '[' {
			return r.transcript(s)
		}
	case key == "tool_calls" && at == atMessage:
		if c == '[' {
			return s.array(func(int) bool { r.inky = true; return s.skip() })
		}
	case (key == "content" || key == "reasoning_content" || key == "reasoning") && at == atMessage:
		return r.text(s, 1)
	case key == "text" && at == atChoice:
		return r.text(s, 1)
	case key == "error" || key == "exception" || key == "errors" || key == "error_message":
		return r.errorValue(s)
	case key == "status" || key == "state":
		return r.status(s)
	case (key == "status_code" || key == "http_status") && at != atChoice:
		v, ok := s.scalarOrSkip()
		if n, err := strconv.Atoi(string(v)); err == nil && n >= 400 {
			r.failed = true
		}
		return ok
	case key == "truncated" || key == "is_truncated":
		v, ok := s.scalarOrSkip()
		if string(v) == "true" {
			r.finish = max(r.finish, finishLength)
		}
		return ok
	case (key == "success" || key == "ok") && at <= atBody:
		v, ok := s.scalarOrSkip()
		r.failed = r.failed || string(v) == "false"
		return ok
	case outputs[key] > 0 && at <= atBody:
		return r.output(s, key, c)
	case key == "body" && at == atBody && c == '{':
		return r.object(s, atBody)
	case at == atTop && ids[key] > 0:
		return r.name(s, key)
	case at == atTop && sampleKeys[key]:
		start := s.i
		ok := s.skip()
		r.sample = append(append(r.sample, key...), s.b[start:s.i]...)
		return ok
	}
	return s.skip()
}

// scalarOrSkip reads a scalar's text; of anything else it reads past it.
func (s *scanner) scalarOrSkip() ([]byte, bool) {
	switch s.peek() {
	case '{', '[':
		return nil, s.skip()
	case '"':
		v, ok := s.str()
		return v.raw, ok
	}
	return s.scalar()
}

// output reads a field that holds the model's answer: text, a list of texts, or
// the server's whole answer.
func (r *row) output(s *scanner, key string, c byte) bool {
	switch c {
	case '{':
		if r.rank == 0 {
			r.rank = 9 // an answer whose text is still to be found
		}
		return r.object(s, atBody)
	case '[':
		return s.array(func(int) bool {
			if s.peek() == '{' {
				return r.object(s, atBody)
			}
			return r.text(s, outputs[key])
		})
	}
	return r.text(s, outputs[key])
}

// text takes a value as the row's output if no surer one was seen; values of the
// same rank (several choices, a thought and its answer) add up.
func (r *row) text(s *scanner, rank int) bool {
	switch s.peek() {
	case '"':
		v, ok := s.str()
		if ok {
			r.take(rank, v)
		}
		return ok
	case '[': // content parts
		return s.array(func(int) bool {
			if s.peek() != '{' {
				return r.text(s, rank)
			}
			return s.object(func(k []byte) bool {
				if string(k) == "text" {
					return r.text(s, rank)
				}
				return s.skip()
			})
		})
	case '{':
		return r.object(s, atBody)
	}
	v, ok := s.scalar()
	if ok && string(v) == "null" {
		r.take(rank, str{})
	} else if ok {
		r.take(rank, str{runes: len(v), inky: true})
	}
	return ok
}

func (r *row) take(rank int, v str) {
	switch {
	case r.rank == 0 || rank < r.rank:
		tool := r.inky && r.rank == 0 // a tool call may stand before the text
		r.rank, r.runes, r.inky = rank, v.runes, v.inky || tool
	case rank == r.rank:
		r.runes += v.runes
		r.inky = r.inky || v.inky
	}
}

// transcript reads a list of messages; its last one of the model is the output.
func (r *row) transcript(s *scanner) bool {
	var last row
	ok := s.array(func(int) bool {
		if s.peek() != '{' {
			return s.skip()
		}
		m := row{tokens: -1, ids: -1}
		model := false
		good := s.object(func(k []byte) bool {
			switch string(k) {
			case "role", "from":
				v, ok := s.scalarOrSkip()
				model = string(v) == "assistant" || string(v) == "gpt" || string(v) == "model"
				return ok
			case "content", "value", "reasoning_content", "text":
				return m.text(s, 3)
			case "tool_calls":
				if s.peek() == '[' {
					return s.array(func(int) bool { m.inky = true; return s.skip() })
				}
			}
			return s.skip()
		})
		if model {
			last = m
		}
		return good
	})
	if last.rank > 0 && (r.rank == 0 || r.rank > 3) {
		r.rank, r.runes, r.inky = 3, last.runes, last.inky
	}
	return ok
}

// reason reads why a generation ended: "stop", {"type":"length",…}, a list of these.
func (r *row) reason(s *scanner) bool {
	switch s.peek() {
	case '{':
		return s.object(func(k []byte) bool {
			if string(k) == "type" {
				return r.reason(s)
			}
			return s.skip()
		})
	case '[':
		return s.array(func(int) bool { return r.reason(s) })
	case '"':
		v, ok := s.str()
		switch string(bytes.ToLower(v.raw)) {
		case "length", "max_tokens", "max_output_tokens", "model_length", "max_length":
			r.finish = max(r.finish, finishLength)
		case "abort", "aborted", "error", "cancelled":
			r.finish, r.failed = finishError, true
		case "":
		default:
			r.finish = max(r.finish, finishStop)
		}
		return ok
	}
	return s.skip()
}

func (r *row) count(s *scanner) bool {
	v, ok := s.scalarOrSkip()
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && f >= 0 && f < 1<<31 {
		r.tokens = max(r.tokens, int(f))
	}
	return ok
}

// errorValue takes an error that says something: not null, false, 0 or empty.
func (r *row) errorValue(s *scanner) bool {
	switch s.peek() {
	case '{':
		n := 0
		ok := s.object(func([]byte) bool { n++; return s.skip() })
		r.failed = r.failed || n > 0
		return ok
	case '[':
		return s.array(func(int) bool { r.failed = true; return s.skip() })
	case '"':
		v, ok := s.str()
		r.failed = r.failed || v.inky
		return ok
	}
	v, ok := s.scalar()
	switch string(v) {
	case "null", "false", "0", "0.0", "NaN":
	default:
		r.failed = r.failed || ok
	}
	return ok
}

func (r *row) status(s *scanner) bool {
	v, ok := s.scalarOrSkip()
	switch string(bytes.ToLower(v)) {
	case "error", "failed", "failure", "timeout", "exception":
		r.failed = true
	}
	return ok
}

// name takes an id; where several stand in a row, the surest is the id and the
// numbering ("idx", "index") beside it tells samples apart.
func (r *row) name(s *scanner, key string) bool {
	s.space()
	start := s.i
	scalar := s.peek() != '{' && s.peek() != '['
	ok := s.skip()
	raw := s.b[start:s.i]
	if !scalar || string(raw) == "null" || string(raw) == `""` {
		return ok
	}
	rank := ids[key]
	switch {
	case r.idRank == 0:
		r.idRank, r.id = rank, raw
	case rank < r.idRank:
		if r.idRank == numbering {
			r.sample = append(r.sample, r.id...)
		}
		r.idRank, r.id = rank, raw
	case rank == numbering:
		r.sample = append(append(r.sample, key...), raw...)
	}
	return ok
}

// hash is a salted digest of (id, sample), which tells equal rows and nothing else.
func (r *row) hash(salt []byte) (uint64, bool) {
	if r.idRank == 0 {
		return 0, false
	}
	h := sha256.New()
	h.Write(salt)
	h.Write(r.id)
	h.Write([]byte{0})
	h.Write(r.sample)
	var sum [sha256.Size]byte
	return binary.LittleEndian.Uint64(h.Sum(sum[:0])), true
}

// length gives the output's length in tokens where known, and in characters.
func (r *row) length() (tokens, runes int) {
	t := r.tokens
	if t < 0 {
		t = r.ids
	}
	return t, r.runes
}

// empty tells a row that has an output field with nothing in it.
func (r *row) empty() bool { return !r.failed && r.rank > 0 && !r.inky }
