// Package rerun processes raw records again, as a verification and a replay do: with the service's
// own engine, on states of its own on disk (Map), refusing what the first run refused
// (ReadRefused). It also reads the states that a changelog holds (ReadChangelog) and compares them
// (CompareStates).
package rerun
