// Package account reads what users have spent, and keeps every account of ε from being lost.
//
// It puts one user's state into words (User): what the user has spent, when and where the last
// release was, and what the posterior holds. It also sums up what all users have spent (Accounts).
//
// It looks whether the changelog still holds the accounts: whether it was lost or emptied (Check),
// belongs to another raw topic (ElsewhereError), can replace the local state folder
// (Check.Restorable), and has each account where the configured partitioner puts its user
// (CheckHomes, Placement). After that look it removes a local state folder (ResetFolder), or all
// states in Kafka (ResetEverything), and it writes a changelog that was lost back from state
// folders (RebuildChangelog).
package account
