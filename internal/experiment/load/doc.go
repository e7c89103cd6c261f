// Package load runs experiments on a real server.
package load
