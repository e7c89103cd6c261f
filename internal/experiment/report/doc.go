// Package report shows a run as one HTML file that needs nothing beside it, and each of its charts as an SVG file.
//
// The way of a run through it: families of levels that differ in one respect ([experiment.Level]) become charts
// (package chart), charts become SVG, and the page around them comes from a template.
// A comparison of two runs goes the same way, with a line of each run in every chart.
//
// All text that a server or a plan brought along is hostile: it is cleaned (text.go) and escaped, and no file name
// is made of it.
package report
