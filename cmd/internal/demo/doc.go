// Package demo runs the whole pipeline on the shipped sample, with nothing else installed: an
// embedded broker, a feed, the service, and a view of what comes out beside the truth. Only a demo
// can hold records against the truth: its fleet is open data.
package demo
