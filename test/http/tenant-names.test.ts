// The names of more tenants than a server keeps in memory.
import { describe, expect, test } from 'vitest'
import { boundsOf } from '../../src/http/bounds.ts'
import { TenantNames } from '../../src/http/tenant-names.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'

const KINDS = await everyStore('the names of many tenants')
const MANY = 10_000

describe.each(KINDS)('on $name, beside 10,000 other tenants', (kind) => {
  const open = async (): Promise<{ d: HttpHarness; names: TenantNames; asked: () => number }> => {
    const d = await HttpHarness.open({ engine: { store: kind.create() } })
    const store = await remoteOf(d.sluice).store()
    const look = store.names.bind(store)
    let asked = 0
    store.names = (...of) => (asked++, look(...of))
    return { d, names: new TenantNames(remoteOf(d.sluice), d.clock, boundsOf({ queues: 2 })), asked: () => asked }
  }
  /** Makes the places of others, at once: no name needs the store. */
  const others = async (names: TenantNames, called: string): Promise<void> => {
    await Promise.all(Array.from({ length: MANY }, (_, n) => names.admit('queues', `${called}${n}`, [])))
  }
  const admit = (names: TenantNames, queue: string): Promise<boolean> =>
    names.admit('queues', 'acme', [`acme/${queue}`]).then(
      () => true,
      () => false,
    )

  test('requests that wait for the store are counted with later ones', async () => {
    const { names } = await open()
    const first = ['a', 'b'].map((queue) => admit(names, queue))
    void others(names, 'other')
    const later = ['c', 'd'].map((queue) => admit(names, queue))
    expect(await Promise.all([...first, ...later])).toEqual([true, true, false, false])
  })

  test('the names of a tenant stay in memory until its reservations have expired', async () => {
    const { d, names, asked } = await open()
    await d.push({ queue: 'a' }, {}, { headers: { 'X-OJS-Tenant': 'acme' } })
    for (const queue of ['a', 'b']) expect(await admit(names, queue)).toBe(true)
    const before = asked()
    await others(names, 'other')
    expect([await admit(names, 'a'), asked()]).toEqual([true, before])
    await d.clock.advance('31s')
    await others(names, 'another')
    expect([await admit(names, 'a'), asked()]).toEqual([true, before + 1])
  })
})
