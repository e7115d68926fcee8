use super::*;
use clap::ValueEnum as _;

fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("srnic-install-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory of our own");
    directory
}

#[test]
fn completions_know_every_subcommand() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = completions(shell);
        for subcommand in ALL {
            let name = subcommand.name;
            let known = [format!("'{name}:"), format!("\"{name}\""), format!("srnic,{name})")];
            assert!(known.iter().any(|known| script.contains(known)), "{shell}: {name}");
        }
        assert!(!script.contains("write-bm"), "{shell}");
    }
    assert!(Shell::value_variants().len() >= 3);
}

#[test]
fn each_subcommand_has_a_page_that_names_it() {
    let directory = scratch("man");
    man(&directory).expect("room for pages");
    let overview = fs::read_to_string(directory.join("srnic.1")).expect("the program's own");
    for subcommand in ALL {
        let name = subcommand.name;
        let page = fs::read_to_string(directory.join(format!("srnic-{name}.1"))).expect(name);
        let escaped = name.replace('-', "\\-");
        assert!(page.contains(&format!("srnic\\-{escaped}")), "{name}: {page}");
        assert!(overview.contains(&format!("srnic\\-{escaped}(1)")), "{name}: {overview}");
        let of_link = format!("{}.1", subcommand.link());
        let leads = fs::read_to_string(directory.join(of_link)).expect("that of the link");
        assert_eq!(leads, format!(".so man1/srnic-{name}.1\n"));
    }
    assert!(!directory.join("srnic-write-bm.1").exists());
    fs::remove_dir_all(&directory).expect("ours");
}

#[test]
fn links_are_made_and_made_again_and_no_file_is_replaced() {
    let directory = scratch("link");
    symlink("elsewhere", directory.join("srnic_ping")).expect("an older link");
    link(&directory).expect("made");
    link(&directory).expect("made again");
    let program = std::env::current_exe().expect("we run");
    for subcommand in ALL {
        assert_eq!(fs::read_link(directory.join(subcommand.link())).expect("a link"), program);
    }
    fs::remove_file(directory.join("srnic_stat")).expect("ours");
    fs::write(directory.join("srnic_stat"), "a program").expect("an older program");
    let error = link(&directory).expect_err("it is no link").to_string();
    assert!(error.contains("srnic_stat: it is there and no link; remove it"), "{error}");
    assert_eq!(fs::read(directory.join("srnic_stat")).expect("it stays"), b"a program");
    fs::remove_dir_all(&directory).expect("ours");
}

#[test]
fn links_beside_the_program_name_it_alone() {
    let directory = scratch("beside");
    let directory = directory.canonicalize().expect("ours");
    assert_eq!(target(&directory.join("srnic"), &directory), Path::new("srnic"));
    assert_eq!(target(Path::new("/usr/bin/srnic"), &directory), Path::new("/usr/bin/srnic"));
    fs::remove_dir_all(&directory).expect("ours");
}

#[test]
fn links_need_a_directory_that_is_there() {
    let missing = std::env::temp_dir().join(format!("srnic-none-{}", std::process::id()));
    assert!(link(&missing).expect_err("nowhere").to_string().contains("No such file"));
}
