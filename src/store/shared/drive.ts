/**
 * How a store runs a verb. `read`: it only reads, or may run twice; `look`: it reports waits, so pending arrivals join
 * their lanes and overrides end first; `page` and `glance`: the same two for a verb that finds a few rows of large tables
 * by their indexes; `keep`: a change that lets no job start and may run twice; `change`: one that
 * may let jobs start; `once`: the same, but one that must not run twice; `adjust`: a change of buckets, before which overrides end, since a bucket's state belongs to the
 * policy of its last write.
 * `take`: the same for a change that lets no job start; `decide`: the same for one that throws `OverrideOver` where an
 * override has to end first.
 */
export type Drive = 'read' | 'look' | 'page' | 'glance' | 'keep' | 'change' | 'once' | 'adjust' | 'take' | 'decide'
