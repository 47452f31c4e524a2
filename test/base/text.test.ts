import { assert, integer, property, string } from '../properties.ts'
import { describe, expect, it } from 'vitest'
import { beginningOf, isName, isStorable, storableText } from '../../src/base/text.ts'

const anyText = string({ unit: integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) })

describe('texts that a store keeps', () => {
  it('are those that UTF-8 has a form for, without NUL', () => {
    expect(['', 'plain', '😀', '￿', '\u0001'].map(isStorable)).toEqual([true, true, true, true, true])
    expect(['a\0b', 'a\ud800', '\udc00b', '\ud83d\ud83d\ude00'].map(isStorable)).toEqual([false, false, false, false])
  })

  it('free text keeps all but what cannot be kept, which U+FFFD stands for', () => {
    expect(storableText('a\0b\ud800c😀\udc00')).toBe('a�b�c😀�')
    assert(
      property(anyText, (text) => {
        const kept = storableText(text)
        expect(isStorable(kept)).toBe(true)
        expect(kept.length).toBe(text.length)
        expect(Buffer.from(kept).toString()).toBe(kept)
        if (isStorable(text)) expect(kept).toBe(text)
      }),
    )
  })

  it('a name is neither empty, nor too long, nor a text that a store would change', () => {
    expect(isName('crm', 3)).toBe(true)
    for (const bad of ['', 'long', 'a\0', '\ud800', 7, null]) expect(isName(bad, 3)).toBe(false)
  })

  it('the beginning of a text ends with a whole character', () => {
    expect(beginningOf('ab😀', 4)).toBe('ab😀')
    expect(beginningOf('ab😀c', 3)).toBe('ab')
    expect(beginningOf('ab😀c', 4)).toBe('ab😀')
  })
})
