// Package model runs experiments on a model of a server, on virtual time, and fits such a model to a run.
package model
