import { everyStore, type StoreKind } from '../stores.ts'

/** The kinds of stores that keep workflow flows. */
export async function flowStores(leftOut: string): Promise<StoreKind[]> {
  return (await everyStore(leftOut)).filter(({ name }) => name === 'sqlite')
}
