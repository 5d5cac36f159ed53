// Package admin asks a cluster about its topics (topics.go) and their configuration (configs.go),
// and creates topics.
package admin
