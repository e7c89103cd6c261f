package web

// Longest texts that are kept and shown, in characters.
const (
	maxBody  = 2 << 10
	maxThin  = 256 // of a body or an error that has grown old
	maxError = 1 << 10
	maxName  = 256
	maxID    = 128
	maxURL   = 512
	maxWord  = 64 // finish reason, version, engine
)
