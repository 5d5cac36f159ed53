// Package admin asks a cluster about its topics, their ids and their configuration, and creates
// topics.
package admin
