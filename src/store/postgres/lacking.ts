import { SluiceError } from '../../base/errors.ts'
import type { Outside } from '../outside.ts'
import type { Store } from '../store.ts'

/** The parts of the contract that the store on PostgreSQL does not have yet: each call says so before anything is written. */
export class Lacking {
  // Without a `then`, which whoever awaits it would call.
  readonly outside: Outside = new Proxy({} as Outside, {
    get: (_, name) => (name === 'then' ? undefined : lacking('work from outside')),
  })
  readonly startFlow: Store['startFlow'] = lacking('flows')
  readonly getFlow: Store['getFlow'] = lacking('flows')
  readonly flows: Store['flows'] = lacking('flows')
  readonly cancelFlow: Store['cancelFlow'] = lacking('flows')
}

function lacking(what: string): () => Promise<never> {
  const message = `The store on PostgreSQL has no ${what} yet. Use a store on SQLite for that.`
  return () => Promise.reject(new SluiceError('store.lacks', message))
}
