// Package chart draws charts as SVG, for a page or for a file of their own.
package chart
