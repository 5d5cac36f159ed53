// Package erase removes what a service has stored of people (GDPR, article 17): their states in the
// changelog, which every state folder then follows, and in the folder on this machine. It keeps
// their accounts of ε under a keyed hash, so that erasing is no way to reset a budget, unless it
// is told to drop them. A receipt without personal data says what was done, and what remains where.
//
// How it is done exactly once beside a running service: the service's DESIGN.md, "Erasing a
// person".
//
// Files: erase.go the order of the work; eraser.go what is asked for; look.go what the changelog
// has of a user; act.go one partition's transaction; local.go the folder on this machine;
// receipt.go.
package erase
