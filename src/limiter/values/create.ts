import { checkMethods } from '../../base/options.ts'
import type { LimitBackend } from '../contract/limiter.ts'
import { ValueBackend, type ValueStore } from './backend.ts'

/**
 * A backend over any place that keeps texts by key: a table, a file, a hash of a server. The store reads and writes; all
 * mathematics of limits is here.
 * @throws {SluiceError} `option.invalid` if `update` is missing
 */
export function valueBackend(store: ValueStore): LimitBackend {
  checkMethods(store, ['update'], 'The store of valueBackend')
  return new ValueBackend(store)
}
