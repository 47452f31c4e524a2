import { describe, expect, test, vi } from 'vitest'
import { isSupportedNode } from '../../src/base/supported-node.ts'

describe('a version of Node', () => {
  test.each(['22.16.0', '22.17.1', '23.11.0', '24.0.0', '26.1.0-nightly'])('%s is supported', (version) => {
    expect(isSupportedNode(version)).toBe(true)
  })

  test.each(['18.20.4', '20.20.2', '21.99.0', '22.15.1', '22.9.0'])('%s is too old', (version) => {
    expect(isSupportedNode(version)).toBe(false)
  })
})

test('every door of the package refuses a Node that is too old, and says which one it needs', async () => {
  const { versions } = process
  const own = Object.getOwnPropertyDescriptor(process, 'versions')!
  Object.defineProperty(process, 'versions', { ...own, value: { ...versions, node: '20.19.0' } })
  try {
    vi.resetModules()
    await expect(import('../../src/exports/index.ts')).rejects.toMatchObject({
      code: 'node.unsupported',
      message: 'Sluice needs Node 22.16 or newer; this is Node 20.19.0.',
    })
  } finally {
    Object.defineProperty(process, 'versions', own)
  }
})
