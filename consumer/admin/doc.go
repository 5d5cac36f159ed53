// Package admin asks a cluster about its topics (topics.go), their configuration (configs.go) and
// this client's rights (rights.go), and creates topics.
package admin
