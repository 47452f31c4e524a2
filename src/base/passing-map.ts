/** So many entries pass at least before the next `Map`: a small one would be copied too often. */
const PASSED_AT_LEAST = 64

/**
 * A map for entries that come and go all the time. V8 links each outgrown table of a `Map` to the one that follows it.
 * Once such a table is old, all later ones stay in memory until the next full collection, with all that they held. So
 * this map moves to a new `Map` each time that twice as many entries have passed as it keeps.
 */
export class PassingMap<K, V> {
  #map = new Map<K, V>()
  #passed = 0

  get size(): number {
    return this.#map.size
  }

  get(key: K): V | undefined {
    return this.#map.get(key)
  }

  has(key: K): boolean {
    return this.#map.has(key)
  }

  set(key: K, value: V): void {
    this.#map.set(key, value)
    if (++this.#passed <= PASSED_AT_LEAST + 2 * this.#map.size) return
    this.#map = new Map(this.#map)
    this.#passed = 0
  }

  delete(key: K): boolean {
    return this.#map.delete(key)
  }

  values(): IterableIterator<V> {
    return this.#map.values()
  }

  [Symbol.iterator](): IterableIterator<[K, V]> {
    return this.#map.entries()
  }
}
