package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Kind says what a frame's Data holds. The payload of each kind is given beside
// its name: JSON of the named type, raw text, or a chunk (one line of JSON
// header, then raw bytes; see EncodeChunk).
type Kind string

const (
	// KindSession opens a session on a connection, also after each reconnect. JSON Session.
	KindSession Kind = "session"
	// KindLink is a change of the connection's state. JSON LinkFact.
	KindLink Kind = "link"
	// KindTick comes every second whatever else arrives, so that silence grows old. No data.
	KindTick Kind = "tick"
	// KindProbe is the state of one probe channel; Name is the channel. JSON ProbeFact.
	KindProbe Kind = "probe"
	// KindSys holds one sample of the host as text lines: "uptime A B",
	// "loadavg …", "cpu …" (first line of /proc/stat) and meminfo lines verbatim;
	// now and then also "groups PID…", which were asked for, and for each memory
	// limit of a control group above one of them "group PID LIMIT USED ACTIVE
	// INACTIVE PATH": bytes of the limit, in use, of page cache; PATH is "" or / at
	// the top of what the node's mount shows.
	KindSys Kind = "sys"
	// KindDisk is the free space of the file systems in use. JSON []DiskFact.
	KindDisk Kind = "disk"
	// KindGPU holds rows of the nvidia-smi stream: first line the field names
	// separated by commas, then CSV rows (noheader, nounits).
	KindGPU Kind = "gpu"
	// KindGPUStatic is like KindGPU, with the fields that do not change, once a session.
	KindGPUStatic Kind = "gpustatic"
	// KindGPUApps is like KindGPU, for --query-compute-apps: a header line alone means no process.
	KindGPUApps Kind = "gpuapps"
	// KindGPUError is nvidia-smi failing or hanging. JSON GPUErrorFact.
	KindGPUError Kind = "gpuerror"
	// KindFiles is the stat of every wanted file. JSON []FileStat.
	KindFiles Kind = "files"
	// KindDir is the listing of a wanted directory (Name), newest first, capped. JSON []FileStat.
	KindDir Kind = "dir"
	// KindRows is the state of counting one file's rows; Name is the path. JSON RowsFact.
	KindRows Kind = "rows"
	// KindLog holds whole lines of a followed log; Name is the path. Chunk with LogHeader.
	KindLog Kind = "log"
	// KindScan is one discovery of processes, sockets and open files. JSON Scan.
	KindScan Kind = "scan"
	// KindAlive is the state of the wanted processes. JSON []Alive.
	KindAlive Kind = "alive"
	// KindHTTP is the answer of an endpoint; Name is "PORT PATH". Chunk with HTTPHeader.
	KindHTTP Kind = "http"
	// KindKernel holds new kernel log lines about GPUs and the OOM killer; Name is "dmesg" or "journalctl".
	KindKernel Kind = "kernel"

	// KindConfig is the user's configuration of this node. JSON Config.
	KindConfig Kind = "config"
	// KindGuards are the guards kept in one place; Name is "config" or "node". JSON []Guard.
	KindGuards Kind = "guards"
	// KindStarts are starts known from earlier (history, import). JSON []Start.
	KindStarts Kind = "starts"
	// KindJournal holds new lines of a restart's journal; Name is the restart's id. Text.
	KindJournal Kind = "journal"
	// KindAck is an operator's decision about a finding. JSON Ack.
	KindAck Kind = "ack"
	// KindNote is an operator's note on the timeline. JSON Note.
	KindNote Kind = "note"
	// KindSaved is what an earlier visit had counted. JSON Saved.
	KindSaved Kind = "saved"
)

// Frame is what was learnt at one moment.
//
// At is the local receive time: the wall time at which the source began plus
// the monotonic time since, so it never goes back and it orders the fold. Node
// is the node's own wall time where the fact has one, else zero.
type Frame struct {
	Kind Kind
	Name string
	At   time.Time
	Node time.Time
	Data []byte
}

// JSONFrame builds a frame whose payload is the JSON of v.
func JSONFrame(kind Kind, name string, at time.Time, v any) Frame {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("metrics: payload of %s frame: %v", kind, err)) // the payload types hold nothing that JSON refuses
	}
	return Frame{Kind: kind, Name: name, At: at, Data: data}
}

// Decode reads a frame's JSON payload into a new T.
func Decode[T any](f Frame) (T, error) {
	var v T
	if err := json.Unmarshal(f.Data, &v); err != nil {
		return v, fmt.Errorf("payload of %s frame %q at %s: %w", f.Kind, f.Name, f.At.Format(time.RFC3339), err)
	}
	return v, nil
}

// EncodeChunk joins a one-line JSON header and raw bytes into a payload.
func EncodeChunk(header any, raw []byte) []byte {
	h, err := json.Marshal(header)
	if err != nil {
		panic(fmt.Sprintf("metrics: chunk header: %v", err)) // as in JSONFrame
	}
	out := make([]byte, 0, len(h)+1+len(raw))
	out = append(out, h...)
	out = append(out, '\n')
	return append(out, raw...)
}

// DecodeChunk splits a payload made by EncodeChunk. The raw bytes alias data.
func DecodeChunk[T any](data []byte) (T, []byte, error) {
	var h T
	line, raw, found := bytes.Cut(data, []byte{'\n'})
	if !found {
		return h, nil, fmt.Errorf("chunk of %d bytes has no header line", len(data))
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, fmt.Errorf("chunk header: %w", err)
	}
	return h, raw, nil
}
