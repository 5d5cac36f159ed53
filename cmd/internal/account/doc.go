// Package account looks whether the changelog still holds every user's account of ε: whether it
// was lost or emptied (Check), belongs to another raw topic (ElsewhereError), can replace the local
// state folder (Check.Restorable), and has each account where the configured partitioner puts its
// user (CheckHomes, Placement). It changes nothing.
package account
