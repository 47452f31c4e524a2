/**
 * How the functions of the hot path are planned, whatever the statistics say: rows are looked up by their indexes. A plan is kept for as
 * long as its connection lives; one made while a table was small, or for a long list, would read the whole of it ever after. Of an empty table
 * that was analyzed the planner would keep all rows at hand, rather than look one up: so nothing is kept at hand.
 */
export const BY_INDEX =
  'SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET jit = off SET plan_cache_mode = force_generic_plan'
