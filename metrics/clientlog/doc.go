// Package clientlog reads the log of a client that sends requests to the
// server: usually Python with a progress bar, retries and perhaps a traceback.
// Nothing is expected of its format. A prompt or an answer that the client
// prints is no fault: a fault is told by a log level, a traceback or the shape
// of an exception, never by words alone.
package clientlog
