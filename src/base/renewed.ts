/** A larger map is not worth the pause that a copy takes. */
const MOST = 10_000

/**
 * The same entries in another map, for one that lives long and whose entries change fast. Each map moves to a new table
 * now and then, and the old one refers to it. Once V8 has taken one table for old, all that later ones ever held stays
 * until the next full collection. Call it after as many changes as there are entries.
 */
export function renewed<K, V>(map: Map<K, V>): Map<K, V> {
  return map.size > MOST ? map : new Map(map)
}
