import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useImperativeHandle, useRef, type Ref } from 'react'

import type { components } from '../api/schema.gen'
import { complete, type Schema } from './complete'

export type Fault = components['schemas']['Fault']

export interface EditorHandle {
  /** goTo puts the cursor on a line, from 1. */
  goTo: (line: number) => void
}

interface Props {
  ref?: Ref<EditorHandle>
  text: string
  schema?: Schema
  /** The groups that completion offers. */
  groups: readonly string[]
  faults: readonly Fault[]
  warnings: readonly Fault[]
  onText: (text: string) => void
  onSubmit: () => void
}

/**
 * Editor edits a run file. It is in a shadow tree, whose style sheets the editor adopts: the policy of the page allows no
 * style elements.
 */
export function Editor({ ref, text, schema, groups, faults, warnings, onText, onSubmit }: Props) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const now = useRef({ schema, groups, onText, onSubmit, text })
  now.current = { schema, groups, onText, onSubmit, text }
  // What the editor reported, and has not come back as the text yet: it is older than what was typed since.
  const reported = useRef<string[]>([])

  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: 'open' })
    const editor = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: now.current.text,
        extensions: [
          lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
          highlightActiveLine(), highlightActiveLineGutter(), yaml(), syntaxHighlighting(colours), theme,
          autocompletion({ override: [complete(() => now.current.schema, () => now.current.groups)], icons: false }),
          keymap.of([
            { key: 'Mod-Enter', run: () => { now.current.onSubmit(); return true } },
            ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, ...lintKeymap,
          ]),
          typing,
          EditorView.contentAttributes.of({ 'aria-label': 'Run file', spellcheck: 'false' }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return
            const changed = update.state.doc.toString()
            if (changed === now.current.text) reported.current = []
            else reported.current.push(changed)
            now.current.onText(changed)
          }),
        ],
      }),
    })
    view.current = editor
    return () => editor.destroy()
  }, [])

  useEffect(() => {
    const at = reported.current.lastIndexOf(text)
    reported.current = at < 0 ? [] : reported.current.slice(at + 1)
    const editor = view.current
    if (at < 0 && editor && editor.state.doc.toString() !== text) editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } })
  }, [text])

  useEffect(() => {
    const editor = view.current
    if (!editor) return
    const diagnostics = [...faults.map((f) => diagnostic(editor, f, 'error')), ...warnings.map((f) => diagnostic(editor, f, 'warning'))]
    editor.dispatch(setDiagnostics(editor.state, diagnostics))
  }, [faults, warnings])

  useImperativeHandle(ref, () => ({
    goTo(line) {
      const editor = view.current
      if (!editor) return
      const at = editor.state.doc.line(Math.max(1, Math.min(line, editor.state.doc.lines)))
      editor.dispatch({ selection: { anchor: at.to }, effects: EditorView.scrollIntoView(at.from, { y: 'center' }) })
      editor.focus()
    },
  }), [])
  return <div className="editor" ref={host} />
}

/**
 * typing replaces a selection by what is typed. If the browser did, it would keep the look of the old text in a style attribute,
 * which the policy of the page does not allow.
 */
const typing = EditorView.domEventHandlers({
  beforeinput({ inputType, data, isComposing }, view) {
    const { from, to, empty } = view.state.selection.main
    if (inputType !== 'insertText' || !data || isComposing || empty) return false
    const insert = () => view.state.update(view.state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true })
    if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, data, insert))) view.dispatch(insert())
    return true
  },
})

/** diagnostic marks the line of a fault; the first line if it has none. */
function diagnostic(editor: EditorView, fault: Fault, severity: 'error' | 'warning'): Diagnostic {
  const line = editor.state.doc.line(Math.max(1, Math.min(fault.line ?? 1, editor.state.doc.lines)))
  const indent = /^[\s-]*/.exec(line.text)![0].length
  return { from: Math.min(line.to, line.from + indent), to: line.to, severity, message: fault.path ? `${fault.path}: ${fault.detail}` : fault.detail }
}

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--running)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--success)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.typeName, tags.labelName], color: 'var(--stopped)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace, tags.meta], color: 'var(--muted)' },
])

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--panel)', fontSize: '13px' },
  '&.cm-focused': { outline: 'none' }, // the host has it
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'color-mix(in srgb, var(--focus) 28%, transparent)' },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--muted)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent) 7%, transparent)' },
  '.cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--accent) 14%, transparent)', color: 'var(--text)' },
  '.cm-tooltip': { backgroundColor: 'var(--panel)', color: 'var(--text)', border: '1px solid var(--line)', borderRadius: '6px', boxShadow: '0 4px 16px rgb(0 0 0 / 0.18)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '12.5px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '2px 8px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-text)' },
  '.cm-completionDetail': { color: 'var(--muted)', fontStyle: 'normal' },
  'li[aria-selected] .cm-completionDetail': { color: 'inherit' },
  '.cm-completionInfo': { padding: '8px 10px', maxWidth: '340px', fontFamily: 'var(--sans)' },
  '.cm-diagnostic': { fontFamily: 'var(--sans)', padding: '6px 10px' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--failed)' },
  '.cm-diagnostic-warning': { borderLeftColor: 'var(--waiting)' },
  '.cm-foldPlaceholder': { backgroundColor: 'var(--sunken)', border: '1px solid var(--line)', color: 'var(--muted)' },
  '.cm-matchingBracket': { backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent) !important' },
})
