//go:build !unix

package httpclient

// fileLimit names the limit of open files in force.
func fileLimit() string { return "the system's limit" }
