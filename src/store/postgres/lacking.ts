import { SluiceError } from '../../base/errors.ts'
import type { Outside } from '../outside.ts'

/** A verb of the contract that this store does not have yet: it says so before anything is written. */
export function lacking(what: string): () => Promise<never> {
  return () =>
    Promise.reject(
      new SluiceError('store.lacks', `The store on PostgreSQL has no ${what} yet. Use a store on SQLite for that.`),
    )
}

/** A whole part of the contract that this store does not have yet; without a `then`, which whoever awaits it would call. */
export function lackingPart(what: string): Outside {
  return new Proxy({} as Outside, { get: (_, name) => (name === 'then' ? undefined : lacking(what)) })
}
