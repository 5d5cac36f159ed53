// Package archtest holds the repository to its own map: which package may
// import what, what lies at the top level, where raw fixes may be kept. It has
// tests only; each rule is shown to fail on a planted fault.
package archtest
