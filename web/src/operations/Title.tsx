import { Link, type LinkProps } from '@tanstack/react-router'
import { useEffect, type ReactNode } from 'react'

interface Props {
  name: string
  /** The list that the page belongs to. */
  list: { to: LinkProps['to']; label: string }
  /** What is known of it at once: its state. */
  children?: ReactNode
  actions?: ReactNode
}

/** Title is the head of a page about one thing: its name, its state and what can be done with it. */
export function Title({ name, list, children, actions }: Props) {
  useEffect(() => {
    document.title = `${name} · ${list.label} · Drover`
    return () => {
      document.title = 'Drover'
    }
  }, [name, list.label])
  return (
    <header className="head">
      <div>
        <p className="crumbs"><Link to={list.to}>{list.label}</Link> /</p>
        <h1>{name}</h1>
        <div className="facts">{children}</div>
      </div>
      {actions && <div className="actions">{actions}</div>}
    </header>
  )
}
