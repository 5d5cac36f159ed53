// Package archtest holds the repository to its own map: which package may import what, what lies at
// the top level, where raw fixes may be kept, and how far a reader has to walk through the files of
// a package. It has tests only; each rule is shown to fail on a planted fault.
package archtest
